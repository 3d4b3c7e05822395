package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// Leaders is what a Stack can do besides, where one of several processes leads the others.
type Leaders interface {
	// Leader is the member of etcd that leads now.
	Leader(ctx context.Context) (contract.Process, error)
}

// patience is how long a step waits for a process that another one holds. Afterwards it is not done. What takes a store away
// and brings another is waited for as long as there is time: how long that takes is the machine's business.
const patience = 5 * time.Second

// holding is that a step has a process in its hands.
type holding struct {
	over chan struct{} // closed when it lets go
	long bool          // whoever wants it waits as long as there is time
}

// target finds whom the step hits and marks it busy; false when the time was up first, or when somebody else held it for
// too long.
func (e *Engine) target(ctx context.Context, s plan.Step) (contract.Process, trigger, bool) {
	var trig trigger
	named := contract.Process(s.Target)
	if s.On != "" {
		late := s.Target == plan.EtcdLeader // who that is will be known once the event was heard
		held, heard := e.await(ctx, s, late)
		if !heard {
			e.missed(s, trig, named, unheard(s))
		}
		if !heard || !late {
			return held.target, held.trigger, heard
		}
		trig = held.trigger
	}
	if s.Target == plan.EtcdLeader {
		var err error
		if named, err = e.leader(ctx); err != nil {
			e.missed(s, trig, named, err.Error())
			return "", trigger{}, false
		}
	}
	if e.takeWithin(ctx, named, false) {
		return named, trig, true
	}
	e.missed(s, trig, named, e.heldBack(ctx, string(named)))
	return "", trigger{}, false
}

// hit is whom a step that waited for an event hits, and the event.
type hit struct {
	target  contract.Process
	trigger trigger
}

// await waits for the event of a step, and unless late takes whom the step hits at the same instant. An event whose target
// is in another step's hands is not the one.
func (e *Engine) await(ctx context.Context, s plan.Step, late bool) (h hit, heard bool) {
	l := e.heard.listen(func(ev *history.Event) bool {
		if !triggers(s.On, e.heard, ev) {
			return false
		}
		h = hit{contract.Process(s.Target), triggerOf(ev)}
		switch named := h.target; {
		case s.Target == plan.Holder:
			h.target = ev.Proc
		case (named.IsExecutor() || named.IsLockClient()) && named != ev.Proc:
			return false
		}
		return late || e.take(h.target)
	})
	defer l.close()
	select {
	case <-l.heard:
		return h, true
	case <-ctx.Done():
		l.close()
		select {
		case <-l.heard: // it was heard at the same instant: what was taken is given back
			if !late {
				e.release(h.target)
			}
		default:
		}
		return hit{}, false
	}
}

// leader asks until there is a leader.
func (e *Engine) leader(ctx context.Context) (contract.Process, error) {
	stack, ok := e.stack.(Leaders)
	if !ok {
		return contract.Process(plan.EtcdLeader), errors.New("nobody leads in this stack")
	}
	ctx, cancel := context.WithTimeout(ctx, injectTimeout)
	defer cancel()
	for {
		name, err := stack.Leader(ctx)
		if err == nil {
			return name, nil
		}
		if !wait(ctx, leaderEvery) {
			return contract.Process(plan.EtcdLeader), fmt.Errorf("nobody was seen to lead: %w", err)
		}
	}
}

// leaderEvery is how often it is asked who leads while nobody does.
const leaderEvery = 20 * time.Millisecond

// unheard says that the event of s never came.
func unheard(s plan.Step) string {
	return fmt.Sprintf("the drive has ended, and no %s that it could begin with has come", s.On)
}

// heldBack says why what another step holds was waited for in vain.
func (e *Engine) heldBack(ctx context.Context, what string) string {
	if ctx.Err() != nil {
		return fmt.Sprintf("the drive has ended, and another step holds %s", what)
	}
	return fmt.Sprintf("another step holds %s, and has for %s", what, e.patience)
}

// missed says of a step that it is not done, and why. Nothing may be left out in silence.
func (e *Engine) missed(s plan.Step, trig trigger, target contract.Process, why string) {
	n := e.open(s, target)
	e.rec.Record(history.Nemesis, history.Event{Type: contract.Info, Proc: "nemesis", Op: contract.Op(s.Fault), Window: n, Phase: PhaseFailed,
		Target: string(target), Payout: trig.payout, Key: trig.key, Token: trig.token, Msg: fmt.Sprintf("%s and not done: %s", reason(s, trig), why)})
	e.close(s, target, false)
}

// take marks p as in a step's hands; false when it is in another's.
func (e *Engine) take(p contract.Process) bool { return e.holder(p, false) == nil }

// holder takes p, for long or not, or gives how another step holds it.
func (e *Engine) holder(p contract.Process, long bool) *holding {
	e.mu.Lock()
	defer e.mu.Unlock()
	if other := e.busy[p]; other != nil {
		return other
	}
	e.busy[p] = &holding{make(chan struct{}), long}
	return nil
}

// takeWithin takes p as soon as it is free, and waits for that no longer than the engine's patience, unless p was taken for
// long, or is to be: such steps are few, and what a run is about.
func (e *Engine) takeWithin(ctx context.Context, p contract.Process, long bool) bool {
	tired := time.NewTimer(e.patience)
	defer tired.Stop()
	for {
		other := e.holder(p, long)
		if other == nil {
			return true
		}
		enough := tired.C
		if other.long || long {
			enough = nil
		}
		select {
		case <-other.over:
			if other.long {
				tired.Reset(e.patience)
			}
		case <-enough:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// takeAll takes several for long, or none: then the error says what another step holds.
func (e *Engine) takeAll(ctx context.Context, all []contract.Process) (letGo func(), err error) {
	var taken []contract.Process
	letGo = func() {
		for _, p := range taken {
			e.release(p)
		}
	}
	for _, p := range all {
		if !e.takeWithin(ctx, p, true) {
			letGo()
			return nil, errors.New(e.heldBack(ctx, string(p)))
		}
		taken = append(taken, p)
	}
	return letGo, nil
}

func (e *Engine) release(p contract.Process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if held := e.busy[p]; held != nil {
		close(held.over)
		delete(e.busy, p)
		e.freed[p] = time.Now()
	}
}

// heldSince tells whether a step has p in its hands, or has had it since t.
func (e *Engine) heldSince(p contract.Process, t time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.busy[p] != nil || e.freed[p].After(t)
}
