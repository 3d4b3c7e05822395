// Package conformance holds the tests that drive payment-resource and rail-proxy, on a real paydb and a real rail, and
// the model beside them: after every request the answer and everything in the tables must be what the model predicts.
package conformance
