// Package hostile has no code of its own. Its tests send the HTTP APIs of all services what nobody should send: whatever
// comes, no handler panics, and each answer is one of the contract's.
package hostile
