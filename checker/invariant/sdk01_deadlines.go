// SDK-01: a client starts nothing under a lease past its own deadline, and renews nothing that it has released.

package invariant

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// deadlines reckons each client's deadlines as the client has to: time when the request was sent + lease × (1 − margin),
// of the grant and of its session, extended by what was answered as a success and by nothing else. The earliest that the
// wiretap can know of a request is when it was received, which is a little after it was sent: the deadlines here are a
// little later than the client's own, in its favour. A protected request that is received later than the deadline, the
// preparation and slack is a violation, unless the process was stopped, its link had a fault, the harness stood still in
// between, or the client had gone when the answer came: then nobody can say when the client sent it. What the relay or
// the server does with the request after that is no fault of the client's.
type deadlines struct {
	findings
	times   leaseTimes
	slack   int64 // EXECUTOR_PREPARE + 250 ms
	pulse   pulse
	waits   waits
	clients map[contract.Process]*leaseClient
	open    map[int64]lockCall
	accused map[int64]accusation // late calls, until it is known whether their client still waits
	overdue []accusation         // of clients that do, until it is known whether the machine let them run
	faults  map[string][]span    // by process or link; the last one may be open
	windows map[int]string       // open fault windows → whom they hit

	excused, renewals int64
	starved           int64 // late calls of clients that the machine did not let run
}

// grace is what a client may be late beyond its preparation.
const grace = 250 * time.Millisecond

// leaseClient is one process, as a client of the lock.
type leaseClient struct {
	grants   map[int64]*heldGrant // by token
	order    map[string][]int64   // by key, the latest tokens
	sessions map[string]*heldSession
	opened   []string // sessions, the latest last
}

// heldGrant is a grant as its holder may reckon with it.
type heldGrant struct {
	key, session   string
	lease          time.Duration
	until          int64 // deadline
	sent           int64 // when the request was received that the deadline counts from
	granted, proof *history.Event
	released       *history.Event // the answer to its release
}

// heldSession is a session, likewise.
type heldSession struct {
	lease       time.Duration
	until, sent int64
}

// lockCall is an open call of the lock.
type lockCall struct {
	received int64
	lease    time.Duration
}

// accusation is a violation, if the client still waits for the answer.
type accusation struct {
	sentence string
	want     want
	proof    []*history.Event

	proc    string
	due, at int64         // its deadline, or the answer to its release; when it was received
	late    time.Duration // beyond all that it is allowed
}

// How many grants of a key and sessions are remembered of each client.
const (
	maxHeldGrants   = 8
	maxHeldSessions = 8
	maxFaults       = 64 // windows of a process or link
)

func newDeadlines(b *book, t *tally, s verdict.Settings) *deadlines {
	return &deadlines{
		findings: findings{id: "SDK-01", guarantee: "A process that was not stopped sends no protected request past its lease's own deadline, and no renewal after its release was answered.", book: b, tally: t},
		times:    leaseTimesOf(s), slack: int64(setting(s, "EXECUTOR_PREPARE", 0) + grace),
		waits: newWaits(), clients: map[contract.Process]*leaseClient{}, open: map[int64]lockCall{}, accused: map[int64]accusation{}, faults: map[string][]span{}, windows: map[int]string{},
	}
}

func (f *deadlines) RestsOn() []history.Witness {
	return []history.Witness{history.Wiretap, history.Nemesis}
}

func (f *deadlines) Observe(e *history.Event) {
	f.explain(e)
	f.pulse.observe(e)
	if f.waits.observe(e); e.Op == history.OpWaits {
		f.sentence(false)
	}
	switch {
	case e.W == history.Nemesis && e.Window != 0:
		f.fault(e)
	case e.W != history.Wiretap || e.DupOf != 0: // what the harness repeats is not the client's doing
	case e.Stage == history.Received:
		f.received(e)
	case e.Stage == history.Answered:
		f.answered(e)
		if e.Status == 0 {
			f.acquit(e)
		}
	case e.Stage == history.Delivered:
		f.convict(e)
	case e.Stage == history.Lost:
		f.acquit(e)
	}
}

// convict reports a late call whose client was still there for the answer: it had not been under way for longer than a
// client waits.
func (f *deadlines) convict(e *history.Event) {
	if a, ok := f.accused[e.Call]; ok {
		delete(f.accused, e.Call)
		f.overdue = append(f.overdue, a)
		f.sentence(false)
	}
}

// sentence reports the clients that were late although the machine had let them run, as soon as that is known of the time at which
// their calls were received. Of the others nobody knows, and at the end of nobody of whom it is not known.
//
// What a client waited for before its deadline excuses nothing. Between its last look at the lease, which was in time, and its call it
// does no more than it is allowed time for; the rest, late and all that was left until the deadline, it waited. No more than what was
// left can it have waited before the deadline, so it has waited for late after it.
func (f *deadlines) sentence(end bool) {
	f.overdue = slices.DeleteFunc(f.overdue, func(a accusation) bool {
		switch {
		case f.waits.last != 0 && f.waits.last < a.at:
			if !end {
				return false
			}
			f.unresolved++
		case f.waits.kept(a.proc, a.due, a.at) >= a.late:
			f.starved++
			f.unresolved++
		default:
			f.report(a.sentence, a.want, a.proof...)
		}
		return true
	})
}

// acquit drops a late call whose client had given it up: nobody knows for how long it had been under way before it was
// received, behind a connection that the harness was slow to read.
func (f *deadlines) acquit(e *history.Event) {
	if _, ok := f.accused[e.Call]; ok {
		delete(f.accused, e.Call)
		f.unresolved++
	}
}

// fault follows the fault windows. One that was injected lasts until it is seen to be healed. A revoke touches neither the
// holder nor its links: the holder is told, and has no excuse.
func (f *deadlines) fault(e *history.Event) {
	if e.Op == contract.OpRevoke || e.Op == opClock { // a wall clock that is wrong excuses nobody
		return
	}
	switch e.Phase {
	case "inject":
		f.windows[e.Window] = e.Target
		all := f.faults[e.Target]
		if len(all) == maxFaults {
			all = append(all[:0], all[1:]...)
		}
		f.faults[e.Target] = append(all, span{e.T, 0})
	case "healed":
		all := f.faults[f.windows[e.Window]]
		for i := range all {
			if all[i].to == 0 {
				all[i].to = e.T
				break
			}
		}
		delete(f.windows, e.Window)
	}
}

// hit tells whether a process or link had a fault between two moments.
func (f *deadlines) hit(name string, from, to int64) bool {
	for _, s := range f.faults[name] {
		if s.from <= to && (s.to == 0 || s.to >= from) {
			return true
		}
	}
	return false
}

func (f *deadlines) client(p contract.Process) *leaseClient {
	c := f.clients[p]
	if c == nil {
		c = &leaseClient{grants: map[int64]*heldGrant{}, order: map[string][]int64{}, sessions: map[string]*heldSession{}}
		f.clients[p] = c
	}
	return c
}

// received is the moment that counts: the client has sent it.
func (f *deadlines) received(e *history.Event) {
	switch e.Op {
	case contract.OpAcquire, contract.OpOpenSession, contract.OpHeartbeat, contract.OpRelease:
		f.open[e.Call] = lockCall{e.T, leaseIn(e.Req)}
	case contract.OpRenew:
		f.open[e.Call] = lockCall{e.T, 0}
		f.renewing(e)
	default:
		if e.Op.Fenced() {
			f.protected(e)
		}
	}
}

// leaseIn is the lease that a request asks for, 0 where it names none.
func leaseIn(body string) time.Duration {
	var r struct {
		TTLMillis int64 `json:"ttlMillis"`
	}
	if json.Unmarshal([]byte(body), &r) != nil {
		return 0
	}
	return time.Duration(r.TTLMillis) * time.Millisecond
}

// answered extends deadlines by what succeeded.
func (f *deadlines) answered(e *history.Event) {
	call, ok := f.open[e.Call]
	if !ok {
		return
	}
	delete(f.open, e.Call)
	c := f.client(e.Proc)
	switch {
	case e.Op == contract.OpRelease && e.Type != contract.Info:
		if g := c.grants[e.Token]; g != nil && g.released == nil {
			g.released = f.book.keep(e)
		}
	case isAnswer(e, contract.OpAcquire) && e.Granted > 0:
		c.hold(e, call, f)
	case isAnswer(e, contract.OpRenew):
		if g := c.grants[e.Token]; g != nil {
			f.renewals++
			if until := call.received + f.times.usable(g.lease); until > g.until {
				g.until, g.sent, g.proof = until, call.received, f.book.keep(e)
			}
		}
	case isAnswer(e, contract.OpOpenSession):
		c.open(e.Session, call, f.times)
	case isAnswer(e, contract.OpHeartbeat):
		if s := c.sessions[e.Session]; s != nil {
			s.sent, s.until = max(s.sent, call.received), max(s.until, call.received+f.times.usable(s.lease))
		}
	}
}

func (c *leaseClient) hold(e *history.Event, call lockCall, f *deadlines) {
	lease := call.lease
	if lease == 0 {
		lease = f.times.lock
	}
	kept := f.book.keep(e)
	c.grants[e.Granted] = &heldGrant{key: e.Key, session: e.Session, lease: lease, until: call.received + f.times.usable(lease), sent: call.received, granted: kept, proof: kept}
	tokens := append(c.order[e.Key], e.Granted)
	if len(tokens) > maxHeldGrants {
		delete(c.grants, tokens[0])
		tokens = append(tokens[:0], tokens[1:]...)
	}
	c.order[e.Key] = tokens
}

func (c *leaseClient) open(id string, call lockCall, times leaseTimes) {
	lease := call.lease
	if lease == 0 {
		lease = times.session
	}
	c.sessions[id] = &heldSession{lease: lease, sent: call.received, until: call.received + times.usable(lease)}
	if c.opened = append(c.opened, id); len(c.opened) > maxHeldSessions {
		delete(c.sessions, c.opened[0])
		c.opened = append(c.opened[:0], c.opened[1:]...)
	}
}

// protected judges a request that a lease has to cover.
func (f *deadlines) protected(e *history.Event) {
	c := f.client(e.Proc)
	g := c.grants[e.Token]
	if g == nil {
		f.unresolved++
		return
	}
	until, sent, whose := g.until, g.sent, "its grant's"
	if s := c.sessions[g.session]; s != nil && s.until < until {
		until, sent, whose = s.until, s.sent, "its session's"
	}
	f.checked++
	if e.T <= until+f.slack {
		return
	}
	if f.excuse(e, sent, until) {
		return
	}
	f.accused[e.Call] = accusation{fmt.Sprintf("%s sent its %s of payout %s with token %d %s after %s deadline, and neither had it been stopped nor its link broken",
		e.Proc, e.Op, e.Payout, e.Token, since(until, e.T), whose), want{key: g.key, account: f.book.accountOf(e), payout: e.Payout, tokens: [2]int64{e.Token}},
		[]*history.Event{g.granted, g.proof, f.book.keep(e)}, string(e.Proc), until, e.T, time.Duration(e.T - until - f.slack)}
}

// excuse tells whether nobody can say when the client sent e.
func (f *deadlines) excuse(e *history.Event, from, due int64) bool {
	switch {
	case f.hit(string(e.Proc), from, e.T), f.hit(e.Link, from, e.T):
		f.excused++
		return true
	case f.pulse.stood(due, e.T) > aMoment:
		f.unresolved++
		return true
	}
	return false
}

// renewing judges a renewal: none follows the answer to its release. One that its client had given up before it released
// may have been on its way all the while, on another connection: it has the grace of every late request.
func (f *deadlines) renewing(e *history.Event) {
	g := f.client(e.Proc).grants[e.Token]
	if g == nil {
		return
	}
	f.checked++
	if g.released == nil || e.T <= g.released.T+int64(grace) || f.excuse(e, g.released.T, g.released.T) {
		return
	}
	f.accused[e.Call] = accusation{fmt.Sprintf("%s renewed key %s with token %d %s after its release had been answered", e.Proc, e.Key, e.Token, since(g.released.T, e.T)),
		want{key: e.Key, tokens: [2]int64{e.Token}}, []*history.Event{g.granted, g.released, f.book.keep(e)}, string(e.Proc), g.released.T, e.T, time.Duration(e.T - g.released.T - int64(grace))}
}

// Finish: that a client was late rests on what is absent, an answer that extended its deadline and a fault that excuses
// it. Where these could have got lost nothing was proved.
func (f *deadlines) Finish(whole func(history.Witness) bool) {
	f.sentence(true)
	f.unresolved += int64(len(f.accused)) // calls that have no end
	if !whole(history.Wiretap) || !whole(history.Nemesis) {
		f.withdraw()
	}
}

func (f *deadlines) Verdict() verdict.Invariant {
	return f.verdict(among(map[string]int64{"excused": f.excused, "starved": f.starved, "renewals": f.renewals}, f.book.clocks.ofClients()))
}
