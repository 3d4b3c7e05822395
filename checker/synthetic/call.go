package synthetic

import (
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// call is one HTTP call: what all its stages repeat, and what became of it.
type call struct {
	w *world
	history.Event
	body     string // of the request
	res      string
	reported contract.Outcome // P7
	bug      Violation        // the guard that the server forgets
	instead  int64            // the token that is granted, or set as the mark, instead of the right one
	hold     time.Duration    // how much longer the server takes

	cut, cutBefore bool // no answer comes, and the server never got the request either
	done           bool
	waiter         *task
}

// ok tells whether the call was answered as successful.
func (c *call) ok() bool { return c.Status >= 200 && c.Status < 300 }

// send sends a request from the client's process. serve runs on the server when the request is there; it ends with
// answer, at once or later.
func (w *world) send(e history.Event, body string, serve func(*call), how ...func(*call)) *call {
	w.calls++
	e.Call, e.Type = w.calls, contract.Invoke
	c := &call{w: w, Event: e, body: body}
	for _, f := range how {
		f(c)
	}
	received := w.now + w.span(20*time.Microsecond, 200*time.Microsecond)
	forwarded := received + w.span(2*time.Microsecond, 30*time.Microsecond)
	c.mark(history.Received, received, func(e *history.Event) { e.Req = body })
	c.mark(history.Forwarded, forwarded, nil)
	w.due.push(forwarded+w.span(800*time.Microsecond, 4*time.Millisecond)+int64(c.hold), doing{do: func() {
		if c.cut && c.cutBefore {
			c.answer(0, "")
			return
		}
		serve(c)
	}})
	return c
}

func (c *call) mark(s history.Stage, at int64, also func(*history.Event)) {
	e := c.Event
	e.Stage = s
	if also != nil {
		also(&e)
	}
	c.w.files.arrive(history.Wiretap, at, false, e)
}

// answer lets the server's answer reach the wiretap and then the client.
func (c *call) answer(status int, res string) {
	c.w.after(c.w.between(100*time.Microsecond, time.Millisecond), func() { c.answered(status, res) })
}

func (c *call) answered(status int, res string) {
	w := c.w
	c.Status, c.res = status, res
	msg := ""
	if c.cut {
		c.Status, c.Code, c.Highest, c.Granted, c.res = 0, "", 0, 0, ""
		if c.Op == contract.OpClaim {
			c.Account = "" // only the answer names it
		}
		msg = "cut: EOF, after 0 bytes of an answer"
	}
	c.Type, c.Outcome = contract.Completion(c.Op, c.Status, c.Code)
	if c.Status == 0 {
		c.Outcome = ""
	}
	if c.Outcome == "" {
		c.Outcome = c.reported
	}
	c.mark(history.Answered, w.now, func(e *history.Event) { e.Res, e.Msg = c.res, msg })
	delivered := w.now + w.span(3*time.Microsecond, 40*time.Microsecond)
	switch {
	case c.Status == 0:
	case c.DupOf != 0:
		c.mark(history.Lost, delivered, func(e *history.Event) {
			e.Type, e.Msg = contract.Info, "the answer to a duplicate: nobody waits for it"
		})
	default:
		c.mark(history.Delivered, delivered, nil)
	}
	w.due.push(delivered, doing{do: func() {
		if c.done = true; c.waiter != nil {
			w.wake(c.waiter)
		}
	}})
}

// wait lets the client's task wait for the answer.
func (c *call) wait(t *task) *call {
	for c.waiter = t; !c.done; {
		t.wait()
	}
	return c
}

// refuse answers with the contract's envelope.
func (c *call) refuse(status int, code contract.Code, message, details string) {
	if c.Code = code; details != "" {
		details = `,"details":` + details
	}
	c.answer(status, fmt.Sprintf(`{"code":%q,"message":%q,"retrySafe":%v%s,"traceId":%q}`, code, message, code == contract.LockContended, details, c.w.id()))
}

// fencedOut refuses a stale token.
func (c *call) fencedOut(highest int64, resource, account, message string) {
	c.Highest = highest
	c.refuse(409, contract.FencedOut, message, fmt.Sprintf(`{"presentedToken":%d,"highestToken":%d,"resourceType":%q,"resourceId":%q,"ownerId":%q}`,
		c.Token, highest, resource, account, c.Owner))
}

// log is a line of a service's own log.
func (w *world) log(proc contract.Process, event, msg string, attrs ...string) {
	all := make(map[string]string, len(attrs)/2+3)
	for i := 0; i < len(attrs); i += 2 {
		all[attrs[i]] = attrs[i+1]
	}
	all["level"], all["service"], all["time"] = "INFO", string(proc), rfc(w.now)
	if proc.IsExecutor() {
		all["service"] = "payout-executor"
	}
	w.see(history.Logs, history.Event{Type: contract.Info, Proc: proc, Op: history.OpLog, Event: event, Attrs: all, Msg: msg})
}
