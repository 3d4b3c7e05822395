package synthetic

import (
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func (p *plot) grantWhileHeld() {
	la := p.lock(p.a)
	p.sleep(50 * time.Millisecond)
	lb := p.lock(p.b, p.bug(contract.OpAcquire))
	p.sleep(20 * time.Millisecond)
	p.b.release(p.task, lb)
	p.a.release(p.task, la)
}

// lapsedRenewal: the renewal comes through, although the lease has run out. The reaper of lockdb has not come by yet; etcd
// has taken the grant away.
func (p *plot) lapsedRenewal() {
	l := p.lock(p.a)
	p.w.locks.spare(l.key, true)
	p.sleep(p.w.ttl + p.w.locks.lapse())
	p.a.renew(p.task, l, p.bug(contract.OpRenew))
	p.w.locks.spare(l.key, false)
	p.a.release(p.task, l)
}

// ungrantedToken: A works under a token that the sequence gave to nobody.
func (p *plot) ungrantedToken() {
	o := p.order()
	p.a.enter(p.task)
	p.pay(p.a, &lease{token: p.w.locks.unused(), deadline: p.w.now + int64(time.Minute)}, o)
}

func (p *plot) leftTerminal() {
	o := p.paid(p.a, contract.OpSubmit)
	l := p.lock(p.b)
	p.b.protected(p.task, contract.OpResolve, o, l.token, `{"resolution":"ABANDONED","operator":"operator","reason":"given up by hand"}`, p.bug(contract.OpResolve))
	p.b.release(p.task, l)
}

func (p *plot) noEvidence() {
	o := p.paid(p.a, contract.OpSubmit)
	p.sleep(settlement)
	p.b.lookUp(p.task, o)
	l := p.lock(p.b)
	p.b.resolve(p.task, l, o, p.bug(contract.OpResolve))
	p.b.release(p.task, l)
	l = p.takeOver(p.a, o)
	p.a.look(p.task, o)
	p.a.post(p.task, l, o)
	p.a.release(p.task, l)
}

func (p *plot) neverEnds() {
	o := p.order()
	l := p.lock(p.a)
	p.a.step(p.task, l, contract.OpClaim, o, `{"expectedState":"PENDING"}`)
	p.a.release(p.task, l)
}

// lateRequest: A's lease runs out, nobody takes over, and A goes on as if nothing had happened.
func (p *plot) lateRequest() {
	o := p.order()
	l := p.lock(p.a)
	p.a.step(p.task, l, contract.OpClaim, o, `{"expectedState":"PENDING"}`)
	p.sleep(4 * p.w.ttl)
	p.a.protected(p.task, contract.OpSubmitted, o, l.token, "{}")
	p.a.release(p.task, l)
	l = p.takeOver(p.b, o)
	p.b.look(p.task, o)
	if p.b.bringToRail(p.task, l, o) {
		p.b.post(p.task, l, o)
	}
	p.b.release(p.task, l)
}

func (p *plot) unloggedRenewal() {
	l := p.lock(p.a)
	p.sleep(p.w.ttl / 4)
	p.a.renew(p.task, l, p.bug(contract.OpRenew))
	p.sleep(20 * time.Millisecond)
	p.a.release(p.task, l)
}

// changedReplay: the wiretap doubles a claim, and the second answer is not the first one.
func (p *plot) changedReplay() {
	o := p.order()
	l := p.lock(p.a)
	c := p.a.step(p.task, l, contract.OpClaim, o, `{"expectedState":"PENDING"}`)
	again := history.Event{Proc: p.a.name, Op: contract.OpClaim, Link: c.Link, Payout: o.id, Owner: string(p.a.name), Token: l.token, DupOf: c.Call}
	p.w.send(again, c.body, p.w.payments.judge, p.bug(contract.OpClaim)).wait(p.task)
	p.a.step(p.task, l, contract.OpSubmitted, o, "{}")
	if p.a.bringToRail(p.task, l, o) {
		p.a.post(p.task, l, o)
	}
	p.a.release(p.task, l)
}

// earlyEnd: A's grant is taken away while its lease runs, long before A gives it back.
func (p *plot) earlyEnd() {
	l := p.lock(p.a)
	p.sleep(p.w.ttl / 10)
	p.w.locks.takeAway(l.key)
	p.sleep(200 * time.Millisecond)
	p.a.release(p.task, l)
	p.paid(p.b)
}
