// Package reissue finds the tokens that a lock store granted a second time because it had forgotten the first. Who judges it
// (INV-04) and who tells of it find the same ones.
package reissue

import (
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// Remembered is how many answered tokens are remembered, whatever their keys. Of a store that forgot more, only the latest of
// them are seen to be granted again.
const Remembered = 4096

// Grant is a token as an acquire was answered with it, in few bytes.
type Grant struct {
	I, T, Call     int64 // of the answer
	Token          int64
	Key, Link      string
	Proc           contract.Process
	Owner, Session string
	// Over is the key for which an earlier epoch had granted the token, "" where none had.
	Over string

	epoch int
}

// GrantOf is what e, the answer to an acquire, granted.
func GrantOf(e *history.Event) Grant {
	return Grant{I: e.I, T: e.T, Call: e.Call, Token: e.Granted, Key: e.Key, Link: e.Link, Proc: e.Proc, Owner: e.Owner, Session: e.Session}
}

// Event is the answer as evidence.
func (g *Grant) Event() *history.Event {
	return &history.Event{I: g.I, T: g.T, W: history.Wiretap, Type: contract.OK, Proc: g.Proc, Op: contract.OpAcquire, Stage: history.Answered,
		Call: g.Call, Link: g.Link, Key: g.Key, Owner: g.Owner, Session: g.Session, Granted: g.Token, Status: 200}
}

// Pair is a token that was granted in two epochs of the lock store's log: at first, and again.
type Pair struct{ First, Again Grant }

// Follower follows who was granted which token. It remembers the latest grants, the open acquires, and when each epoch began.
type Follower struct {
	epoch  int
	begun  []int64         // T of the first event of every epoch but the first
	sent   map[int64]int64 // open acquire → T of its forwarding
	latest []Grant         // a ring, once it is full
	place  map[int64]int   // token → its place there
	next   int             // the place that is taken next
}

// New returns a Follower for one history.
func New() *Follower { return &Follower{sent: map[int64]int64{}, place: map[int64]int{}} }

// Observe takes the next event. The lock store's come in order of I, and so do the wiretap's, which may lag behind. It returns
// the pair that e completes, nil where it completes none; a token makes one pair. An acquire that was forwarded in one epoch and answered in another
// was granted by the one or by the other, and nobody knows which; it is left out.
func (f *Follower) Observe(e *history.Event) *Pair {
	switch {
	case e.W == history.LockDB && e.Epoch > f.epoch:
		f.epoch, f.begun = e.Epoch, append(f.begun, e.T)
	case e.W != history.Wiretap || e.Op != contract.OpAcquire:
	case e.Stage == history.Forwarded:
		f.sent[e.Call] = e.T
	case e.Stage == history.Answered:
		sent := f.sent[e.Call] // 0 where nobody saw it: any epoch up to now
		delete(f.sent, e.Call)
		if e.Type == contract.OK && e.Granted > 0 && f.epochAt(sent) == f.epochAt(e.T) {
			return f.granted(e)
		}
	}
	return nil
}

// epochAt is how many epochs had ended by t. What bears the time of an epoch's first event was recorded just before it.
func (f *Follower) epochAt(t int64) int {
	n, _ := slices.BinarySearch(f.begun, t)
	return n
}

func (f *Follower) granted(e *history.Event) (again *Pair) {
	now := GrantOf(e)
	now.epoch = f.epochAt(e.T)
	at, there := f.place[now.Token]
	if !there {
		f.remember(now)
		return nil
	}
	switch was := f.latest[at]; {
	case was.epoch == now.epoch || was.Over != "": // it has been told
		now.Over = was.Over
	default:
		now.Over = was.Key
		again = &Pair{was, now}
	}
	f.latest[at] = now
	return again
}

// remember puts a token that is not there in the place of the one that was remembered first, unless it is lower: then a store
// goes through what was forgotten here, too, and what is remembered is what it comes to.
func (f *Follower) remember(now Grant) {
	if len(f.latest) < Remembered {
		f.place[now.Token] = len(f.latest)
		f.latest = append(f.latest, now)
		return
	}
	if first := &f.latest[f.next]; now.epoch > first.epoch && now.Token < first.Token {
		return
	}
	delete(f.place, f.latest[f.next].Token)
	f.latest[f.next], f.place[now.Token] = now, f.next
	f.next = (f.next + 1) % Remembered
}

// Latest is the latest grant of token that is remembered; ok is false where none is.
func (f *Follower) Latest(token int64) (g Grant, ok bool) {
	at, ok := f.place[token]
	if ok {
		g = f.latest[at]
	}
	return g, ok
}
