package linear

import (
	"encoding/json"
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// session is what the answers tell of one session where there is no log: its grants end with it.
type session struct {
	TTL    int64 // milliseconds, 0 where nobody said
	Alive  int64 // T of the sending of the last request that found it alive
	Closed Mark  // the sending of the first request that may have closed it, zero for none
}

// runsOut is when nobody can have kept the session alive any more, by T: never where nobody said how long it lasts.
func (s session) runsOut() int64 {
	if s.TTL <= 0 {
		return forever
	}
	return lasts(s.Alive, s.TTL)
}

// OfSessions lists the operations that begin, keep or end a session.
func OfSessions(op contract.Op) bool {
	return op == contract.OpOpenSession || op == contract.OpHeartbeat || op == contract.OpCloseSession
}

// TakesLease lists the operations whose request says how long a lease shall last.
func TakesLease(op contract.Op) bool {
	return op == contract.OpAcquire || op == contract.OpRenew || op == contract.OpOpenSession
}

// LeaseAsked is how long a lease e, which received a request, asks for, in milliseconds; 0 where it does not say.
func LeaseAsked(e *history.Event) int64 {
	var b body
	if !TakesLease(e.Op) || json.Unmarshal([]byte(e.Req), &b) != nil {
		return 0 // what cannot be read says nothing
	}
	return max(0, b.TTLMillis)
}

// hear notes the lease that a request asks for.
func (x *extract) hear(e *history.Event) {
	if ttl := LeaseAsked(e); ttl > 0 && len(x.asked) < maxAsked {
		x.asked[e.Call] = ttl
	}
}

// maxAsked bounds the requests that are being received and were neither forwarded nor answered yet.
const maxAsked = 1 << 16

// maxSessions bounds the sessions that are told apart.
const maxSessions = 1 << 20

// answeredAlone takes an answer where there is no log.
func (x *extract) answeredAlone(o *opened, b *body, e *history.Event) error {
	c := o.call
	switch {
	case OfSessions(c.Op):
		if c.Op == contract.OpOpenSession {
			c.Session = e.Session
		}
		return x.session(c, b.TTLMillis)
	case c.Op == contract.OpRevoke:
		c.Revoked, c.Floor = b.RevokedToken, b.NewTokenFloor
	case c.Op == contract.OpAcquire && e.Type == contract.OK && c.TTL == 0 && b.ExpiresAt.After(b.AcquiredAt) && !b.AcquiredAt.IsZero():
		c.TTL = b.ExpiresAt.Sub(b.AcquiredAt).Milliseconds()
	}
	return x.put(o.key, c)
}

// session notes what a call about one tells; ttl is that of the answer.
func (x *extract) session(c *call, ttl int64) error {
	s, known := x.frame.Sessions[c.Session]
	switch {
	case c.Session == "":
		return nil
	case !known && len(x.frame.Sessions) >= maxSessions:
		return fmt.Errorf("event %d is about yet another session; more than %d are not told apart", c.Sent.I, maxSessions)
	case c.Op == contract.OpCloseSession:
		if c.Type == contract.Fail {
			return nil
		}
		if s.Closed.I == 0 || c.Sent.I < s.Closed.I {
			s.Closed = c.Sent
		}
	case c.Type == contract.OK && c.Back.I != 0:
		s.Alive = max(s.Alive, c.Sent.T)
		if c.Op == contract.OpOpenSession {
			s.TTL = max(ttl, c.TTL)
		}
	default:
		return nil // nobody knows
	}
	x.frame.Sessions[c.Session] = s
	return nil
}
