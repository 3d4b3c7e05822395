package synthetic

import (
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// client is a process with a lock session: an executor, or the reconciler.
type client struct {
	w       *world
	proc    *process
	name    contract.Process
	session *lease // of the session: its deadline
	id      string // of the session, "" without one
	busy    map[*account]bool
	opening bool // another of its tasks is about to have one
	working int
	leaving bool
}

// lease is a grant as its holder sees it.
type lease struct {
	key      string
	session  string // under which it was granted
	token    int64
	deadline int64 // by the holder's own clock, counted from the send
	over     bool  // released or given up: nothing renews it any more
	renewing bool
}

func (w *world) newClient(name contract.Process) *client {
	c := &client{w: w, proc: &process{name: name}, name: name, busy: map[*account]bool{}}
	w.clients = append(w.clients, c)
	return c
}

// call sends a request and waits for its answer.
func (x *client) call(t *task, to contract.Process, e history.Event, body string, serve func(*call), how ...func(*call)) *call {
	e.Proc, e.Link = x.name, link(x.name, to)
	return x.w.send(e, body, serve, how...).wait(t)
}

func (w *world) deadlineOf(sent int64) int64 { return sent + int64(float64(w.ttl)*(1-margin)) }

// enter makes sure that there is a session.
func (x *client) enter(t *task) bool {
	for x.opening {
		t.sleep(time.Millisecond)
	}
	if x.id != "" {
		return true
	}
	x.opening = true
	defer func() { x.opening = false }()
	sent := x.w.now
	c := x.call(t, contract.LockServer, history.Event{Op: contract.OpOpenSession, Owner: string(x.name)},
		fmt.Sprintf(`{"ownerId":%q,"ttlMillis":%d}`, x.name, x.w.ttl.Milliseconds()), x.w.locks.openSession)
	if !c.ok() {
		return false
	}
	x.id, x.session = c.Session, &lease{deadline: x.w.deadlineOf(sent)}
	x.w.spawn(x.proc, func(t *task) { x.beat(t, x.id, x.session) })
	return true
}

// beat keeps the session alive until it is closed or lost.
func (x *client) beat(t *task, id string, s *lease) {
	for !s.over {
		t.sleep(renewEvery)
		if s.over {
			return
		}
		sent := x.w.now
		if sent <= s.deadline {
			c := x.call(t, contract.LockServer, history.Event{Op: contract.OpHeartbeat, Session: id}, "{}", x.w.locks.heartbeat)
			if c.ok() {
				s.deadline = x.w.deadlineOf(sent)
				continue
			}
		}
		x.w.log(x.name, "session_lost", "lock session lost", "ownerId", string(x.name), "sessionId", id)
		x.leave(t)
	}
}

// leave closes the session.
func (x *client) leave(t *task) {
	if x.id == "" {
		return
	}
	id := x.id
	x.session.over, x.id = true, ""
	x.call(t, contract.LockServer, history.Event{Op: contract.OpCloseSession, Session: id}, "{}", x.w.locks.closeSession)
}

func keyOf(a *account) string { return "payout:" + a.id }

// acquire asks for the account's lock; nil when it is held or nobody gives it.
func (x *client) acquire(t *task, a *account, how ...func(*call)) *lease {
	return x.acquireKey(t, keyOf(a), how...)
}

// acquireKey asks for a key's lock.
func (x *client) acquireKey(t *task, key string, how ...func(*call)) *lease {
	if !x.enter(t) {
		return nil
	}
	sent := x.w.now
	c := x.call(t, contract.LockServer, history.Event{Op: contract.OpAcquire, Key: key, Owner: string(x.name), Session: x.id},
		fmt.Sprintf(`{"sessionId":%q,"ttlMillis":%d,"waitMillis":0}`, x.id, x.w.ttl.Milliseconds()), x.w.locks.acquire, how...)
	if c.Code == contract.SessionUnknown || c.Code == contract.SessionExpired {
		x.leave(t)
	}
	if !c.ok() {
		return nil
	}
	return &lease{key: c.Key, session: c.Session, token: c.Granted, deadline: x.w.deadlineOf(sent)}
}

// keep renews a lease until it is over.
func (x *client) keep(l *lease) {
	x.w.spawn(x.proc, func(t *task) {
		for {
			t.sleep(renewEvery)
			if l.over || x.w.now > l.deadline || !x.renew(t, l) {
				return
			}
		}
	})
}

func (x *client) renew(t *task, l *lease, how ...func(*call)) bool {
	sent := x.w.now
	l.renewing = true
	defer func() { l.renewing = false }()
	c := x.call(t, contract.LockServer, history.Event{Op: contract.OpRenew, Key: l.key, Owner: string(x.name), Session: l.session, Token: l.token},
		fmt.Sprintf(`{"sessionId":%q,"ttlMillis":%d}`, l.session, x.w.ttl.Milliseconds()), x.w.locks.renew, how...)
	if c.ok() {
		l.deadline = x.w.deadlineOf(sent)
	}
	return c.ok()
}

// release gives the lease back, when its renewer has come to rest.
func (x *client) release(t *task, l *lease) {
	for l.over = true; l.renewing; {
		t.sleep(time.Millisecond)
	}
	if x.w.now > l.deadline {
		x.w.log(x.name, "lease_expired", "lease over before it was released", "key", l.key, "ownerId", string(x.name), "fencingToken", dec(l.token))
	}
	x.call(t, contract.LockServer, history.Event{Op: contract.OpRelease, Key: l.key, Owner: string(x.name), Session: l.session, Token: l.token},
		fmt.Sprintf(`{"sessionId":%q}`, l.session), x.w.locks.release)
}

// covered tells whether enough is left of lease and session to begin a step.
func (x *client) covered(l *lease) bool {
	need := x.w.now + int64(prepare+stepTimeout)
	return !x.session.over && need <= l.deadline && need <= x.session.deadline
}

// protected sends a protected call without looking at the lease.
func (x *client) protected(t *task, op contract.Op, p *payout, token int64, body string, how ...func(*call)) *call {
	e := history.Event{Op: op, Payout: p.id, Owner: string(x.name), Token: token}
	to, serve := contract.PaymentResource, x.w.payments.judge
	if op == contract.OpSubmit {
		e.Account, to, serve = p.account.id, contract.RailProxy, x.w.payments.submit
	}
	c := x.call(t, to, e, body, serve, how...)
	x.w.pauses.watch(x, c, p)
	return c
}

// step checks the lease, prepares and calls; nil when the lease does not cover the step.
func (x *client) step(t *task, l *lease, op contract.Op, p *payout, body string, how ...func(*call)) *call {
	if !x.covered(l) {
		x.w.log(x.name, "payout_stopped", "the pass over the account ends here", "accountId", p.account.id, "payoutId", p.id, "step", string(op),
			"result", "stopped", "token", dec(l.token), "error", "the lease does not cover the step: the lease is over")
		return nil
	}
	t.sleep(prepare + x.w.between(0, 2*time.Millisecond))
	return x.protected(t, op, p, l.token, body, append(how, x.mishaps(op, p))...)
}

// mishaps are what now and then befalls a call of payment-resource: its answer is cut off, or it is doubled.
func (x *client) mishaps(op contract.Op, p *payout) func(*call) {
	return func(c *call) {
		if p.account.plotted || !op.AtPayment() {
			return
		}
		switch n := x.w.rng.IntN(1000); {
		case n < 3:
			c.cut, c.cutBefore = true, n == 0
		case n < 6:
			again := c.Event
			again.DupOf = c.Call
			reported, body := c.reported, c.body
			x.w.after(x.w.between(5*time.Millisecond, 100*time.Millisecond), func() {
				x.w.send(again, body, x.w.payments.judge, func(d *call) { d.reported = reported })
			})
		}
	}
}
