package lock

import "context"

// MaxListed is the most grants or sessions that one page lists.
const MaxListed = 1000

// ListQuery says which grants or sessions to list. A page is the state at one instant; two pages are not of the same one,
// so what moves between them may be listed twice or not at all.
type ListQuery struct {
	OwnerID   string // only this owner's; "" for all
	KeyPrefix string // only keys that begin so, for grants; "" for all
	After     string // the page's beginning: what comes behind this key or session id; "" for the first page
	Limit     int    // 1 to MaxListed
}

// GrantPage is a page of live grants, in the backend's order of keys.
type GrantPage struct {
	Grants []Grant
	After  string // ListQuery.After of the next page; "" when this is the last
}

// SessionPage is a page of live sessions, in order of their ids.
type SessionPage struct {
	Sessions []HeldSession
	After    string // ListQuery.After of the next page; "" when this is the last
}

// HeldSession is a session and how many live grants it has.
type HeldSession struct {
	Session
	Held int
}

// Lister is a Store that can tell what it holds. That is for operators: no client of the lock needs it.
type Lister interface {
	// ListGrants lists live grants. A page may hold fewer than asked for although it is not the last.
	ListGrants(ctx context.Context, q ListQuery) (GrantPage, error)
	// ListSessions lists live sessions. A page may hold fewer than asked for although it is not the last.
	ListSessions(ctx context.Context, q ListQuery) (SessionPage, error)
}
