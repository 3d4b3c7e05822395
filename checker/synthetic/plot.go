package synthetic

import (
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// plot is the story around a planted violation: two executors of its own, on an account of its own, that do everything
// right while one server forgets one guard. Its account is nobody else's, so that what follows from the violation stays
// within the story.
type plot struct {
	*task
	v    Violation
	a, b *client
	on   *account
}

func newPlot(t *task) *plot {
	w := t.w
	p := &plot{task: t, v: w.o.Violation, a: w.newClient(contract.Executor(w.o.Executors + 1)), b: w.newClient(contract.Executor(w.o.Executors + 2))}
	if w.o.Workload == lockWorkload {
		p.on = &account{id: "plotted"}
	} else {
		p.on = w.openAccount(opening)
	}
	p.on.plotted = true
	return p
}

func (p *plot) run() {
	violations[p.v].Plot(p)
	for _, x := range []*client{p.a, p.b} {
		x.leave(p.task)
	}
}

func (p *plot) order() *payout {
	o := p.w.order(p.on, 4200)
	p.sleep(5 * time.Millisecond)
	return o
}

// lock takes the account's lock; contention with nobody but the story's own earlier holder.
func (p *plot) lock(x *client, how ...func(*call)) *lease {
	for {
		if l := x.acquire(p.task, p.on, how...); l != nil {
			return l
		}
		p.sleep(50 * time.Millisecond)
	}
}

// bug lets the server forget its guard in calls of op.
func (p *plot) bug(op contract.Op) func(*call) { return p.v.of(op) }

// pay brings a payout from PENDING to its end under one lease. buggy are the operations whose guard is forgotten.
func (p *plot) pay(x *client, l *lease, o *payout, buggy ...contract.Op) {
	how := func(c *call) {
		for _, op := range buggy {
			p.bug(op)(c)
		}
	}
	t := p.task
	x.keep(l)
	x.step(t, l, contract.OpClaim, o, `{"expectedState":"PENDING"}`, how)
	x.step(t, l, contract.OpSubmitted, o, "{}", how)
	if x.bringToRail(t, l, o, how) && o.state == contract.RailAcked {
		x.post(t, l, o, how)
	}
}

// paid pays one payout as it should be; of locks it takes the key and gives it back.
func (p *plot) paid(x *client, buggy ...contract.Op) *payout {
	if p.w.o.Workload == lockWorkload {
		x.release(p.task, p.lock(x))
		return nil
	}
	o := p.order()
	l := p.lock(x)
	p.pay(x, l, o, buggy...)
	x.release(p.task, l)
	return o
}

// takeOver claims a payout in flight.
func (p *plot) takeOver(x *client, o *payout) *lease {
	l := p.lock(x)
	x.step(p.task, l, contract.OpClaim, o, fmt.Sprintf(`{"expectedState":%q}`, o.state))
	return l
}

// stopped stops x until the story has gone on with its successor.
func (p *plot) stopped(x *client, o *payout, l *lease, meanwhile func()) {
	heal := p.w.pauses.begin(p.task, x.proc, o, l.token, "in the middle of its work")
	meanwhile()
	heal(p.task, "the story goes on")
}

func (p *plot) onePayout() {
	p.paid(p.a)
	p.paid(p.b, contract.OpSubmit, contract.OpPost)
}

func (p *plot) loweredFence() {
	p.paid(p.a)
	p.paid(p.b, contract.OpClaim)
	p.paid(p.a)
}

// loweredMark: a submission sets the mark back to the first payout's token.
func (p *plot) loweredMark() {
	first := p.paid(p.a)
	p.paid(p.b)
	o := p.order()
	l := p.lock(p.a)
	p.a.step(p.task, l, contract.OpClaim, o, `{"expectedState":"PENDING"}`)
	p.a.step(p.task, l, contract.OpSubmitted, o, "{}")
	if p.a.bringToRail(p.task, l, o, p.bug(contract.OpSubmit), func(c *call) { c.instead = first.token }) {
		p.a.post(p.task, l, o)
	}
	p.a.release(p.task, l)
	p.paid(p.b)
}

// lateWrite: A's submitted hangs in the server while B takes over; then it commits.
func (p *plot) lateWrite() {
	o := p.order()
	l := p.lock(p.a)
	p.a.step(p.task, l, contract.OpClaim, o, `{"expectedState":"PENDING"}`)
	p.sleep(prepare)
	late := p.w.send(history.Event{Proc: p.a.name, Op: contract.OpSubmitted, Link: link(p.a.name, contract.PaymentResource), Payout: o.id, Owner: string(p.a.name), Token: l.token},
		"{}", p.w.payments.judge, p.bug(contract.OpSubmitted), func(c *call) { c.hold = 4 * time.Second })
	p.stopped(p.a, o, l, func() {
		lb := p.takeOver(p.b, o)
		p.b.release(p.task, lb)
		late.wait(p.task)
		lb = p.takeOver(p.b, o)
		p.b.look(p.task, o)
		if p.b.bringToRail(p.task, lb, o) {
			p.b.post(p.task, lb, o)
		}
		p.b.release(p.task, lb)
	})
	p.a.release(p.task, l)
}

// staleClaim: A is stopped before it claims, B pays another payout, and A's claim goes through.
func (p *plot) staleClaim() {
	first, second := p.order(), p.order()
	l := p.lock(p.a)
	p.stopped(p.a, first, l, func() {
		lb := p.lock(p.b)
		p.pay(p.b, lb, first)
		p.b.release(p.task, lb)
	})
	p.a.protected(p.task, contract.OpClaim, second, l.token, `{"expectedState":"PENDING"}`, p.bug(contract.OpClaim))
	p.a.release(p.task, l)
	lb := p.takeOver(p.b, second)
	p.b.step(p.task, lb, contract.OpSubmitted, second, "{}")
	if p.b.bringToRail(p.task, lb, second) {
		p.b.post(p.task, lb, second)
	}
	p.b.release(p.task, lb)
}

// submittedAgain: B takes over what A has submitted and submits it again.
func (p *plot) submittedAgain() {
	o := p.order()
	l := p.lock(p.a)
	p.a.step(p.task, l, contract.OpClaim, o, `{"expectedState":"PENDING"}`)
	p.a.step(p.task, l, contract.OpSubmitted, o, "{}")
	p.a.step(p.task, l, contract.OpSubmit, o, submission(o))
	p.a.release(p.task, l)
	lb := p.takeOver(p.b, o)
	p.b.step(p.task, lb, contract.OpSubmit, o, submission(o), p.bug(contract.OpSubmit))
	if p.b.report(p.task, lb, o, o.attempt) {
		p.b.post(p.task, lb, o)
	}
	p.b.release(p.task, lb)
}

// regrant: the second grant of the key is not what it should be. Nobody writes under it.
func (p *plot) regrant() {
	p.paid(p.a)
	l := p.lock(p.a)
	p.a.release(p.task, l)
	instead := map[Violation]int64{RepeatedToken: l.token, LowerToken: l.token - 1}[p.v]
	l = p.lock(p.b, p.bug(contract.OpAcquire), func(c *call) { c.instead = instead })
	p.sleep(20 * time.Millisecond)
	p.b.release(p.task, l)
}
