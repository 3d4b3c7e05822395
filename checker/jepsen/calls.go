package jepsen

import (
	"cmp"
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/linear"
)

// begin writes the request of the call that begins with operation n.
func (m *importer) begin(n int) error {
	o := &m.ops[n]
	back := &op{typ: contract.Info, f: o.f}
	if p := m.partner[n]; p >= 0 {
		back = &m.ops[p]
	}
	m.made.Calls++
	proc := contract.Process("process-" + o.process)
	e := &history.Event{Type: contract.Invoke, Proc: proc, Op: o.f, Call: m.made.Calls, Link: contract.Link{From: proc, To: "lock"}.String(),
		Session: m.holder(o, back), Owner: cmp.Or(o.owner, back.owner, o.client, back.client)}
	if o.f == contract.OpOpenSession {
		e.Session = o.session // only the answer names the one that it opens
	}
	if !linear.OfSessions(o.f) {
		e.Key = m.keyOf(o, back)
		m.keys[e.Key] = true
	}
	if o.f == contract.OpRelease || o.f == contract.OpRenew {
		e.Token = o.named(back)
	}
	m.calls[n] = e
	received := *e
	received.Stage = history.Received
	if ttl := cmp.Or(o.ttl, back.ttl, m.options.TTL.Milliseconds()); ttl > 0 && linear.TakesLease(o.f) {
		received.Req = fmt.Sprintf(`{"ttlMillis":%d}`, ttl)
	}
	if err := m.event(received); err != nil {
		return err
	}
	forwarded := *e
	forwarded.Stage = history.Forwarded
	return m.event(forwarded)
}

// named is the token under which a release or renewal was asked for. A number alone is none: tests number their requests.
func (o *op) named(back *op) int64 {
	if !o.bare && o.token > 0 {
		return o.token
	}
	if !back.bare && back.token > 0 {
		return back.token
	}
	return 0
}

// keyOf is the lock that a call is about.
func (m *importer) keyOf(o, back *op) string {
	key := cmp.Or(o.key, back.key)
	switch {
	case key != "":
	case m.options.ValueIsKey:
		key = o.name
	case o.name != "":
		m.made.Names++
	}
	return cmp.Or(key, m.options.Lock)
}

// holder is whose a call is: its session's, or its client's where the history names clients, as it or the operation before it
// of its process does, else its process's. A process that does not know how an operation ended does no other, and another goes
// on with its client; so where nobody is named, what such a process was granted, and what one gives back that was never
// granted anything, may be anybody's.
func (m *importer) holder(o, back *op) string {
	who := cmp.Or(o.session, back.session, o.client, back.client, m.latest[o.process], m.first[o.process])
	switch {
	case who != "" || o.f == contract.OpRevoke:
		return who
	case o.f == contract.OpAcquire && back.typ == contract.Info,
		(o.f == contract.OpRelease || o.f == contract.OpRenew) && !m.had[o.process] && (m.crashed || len(m.first) > 0):
		return linear.Anybody
	}
	return "process " + o.process
}

// end writes the answer to the call that began with operation n.
func (m *importer) end(n int, back *op) error {
	e := *m.calls[n]
	delete(m.calls, n)
	e.Stage, e.Type, e.Msg = history.Answered, back.typ, back.error
	switch o := &m.ops[n]; back.typ {
	case contract.OK:
		if err := m.granted(&e, o, back); err != nil {
			return err
		}
		if e.Op == contract.OpAcquire {
			m.had[o.process] = true
		}
	case contract.Fail:
		e.Status, e.Code = 409, codeOf(e.Op, back.error)
		if e.Code == contract.FencedOut {
			e.Highest = back.token
		}
	default:
		m.made.Open++
		m.crashed = true
	}
	if err := m.event(e); err != nil || e.Status == 0 {
		return err
	}
	e.Stage, e.Res, e.Msg = history.Delivered, "", ""
	return m.event(e)
}

// granted writes down what an answer that says ok tells. The statuses are those of the contract.
func (m *importer) granted(e *history.Event, o, back *op) error {
	e.Status = 200
	switch e.Op {
	case contract.OpAcquire:
		if back.name != o.name && (back.big && back.token == 0 || back.bare && back.token < 1) {
			return back.wrong("the answer to an acquire is %.40s; a token is a whole number of 64 bits, from 1", back.name)
		}
		if back.token > 0 && (!back.bare || back.name != o.name) {
			e.Granted = back.token
			m.made.Tokens++
		}
	case contract.OpRenew:
		e.Granted = e.Token
	case contract.OpRelease, contract.OpCloseSession:
		e.Status = 204
	case contract.OpRevoke:
		e.Res = fmt.Sprintf(`{"revokedToken":%d,"newTokenFloor":%d}`, back.token, back.floor)
	case contract.OpOpenSession:
		e.Status, e.Session = 201, m.holder(o, back)
		if back.ttl > 0 {
			e.Res = fmt.Sprintf(`{"ttlMillis":%d}`, back.ttl)
		}
	}
	return nil
}
