package wire

import "net/http"

// NoRoute answers a path that the contract does not have.
func NoRoute(w http.ResponseWriter, r *http.Request) {
	Fail(w, NewError(NotFound, "%s is no path of this service", r.URL.EscapedPath()))
}

// NoMethod answers a path of the contract that is asked with another method than its own.
func NoMethod(w http.ResponseWriter, r *http.Request) {
	Fail(w, NewError(MethodNotAllowed, "%s does not take %s", r.URL.EscapedPath(), r.Method))
}
