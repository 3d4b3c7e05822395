package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// Hops is what a Stack can do besides, where its links can be broken.
type Hops interface {
	Hop(contract.Link) (Hop, error)
}

// Hop is a link whose connections can be tampered with: all that are open and all that are opened meanwhile.
type Hop interface {
	// Cut loses what is sent, and nobody is told.
	Cut(context.Context, plan.Direction) error
	// Hold keeps back what is sent. Heal delivers it.
	Hold(context.Context, plan.Direction) error
	// Slow has everything take its time.
	Slow(context.Context, plan.Direction, plan.Network) error
	// Reset breaks connections when something is sent on them.
	Reset(context.Context, plan.Direction) error
	// Heal takes every fault off.
	Heal(context.Context) error
	// Ask sends a question of our own over the link, on a connection of its own: it has no effect, and whoever is at the
	// other end answers at once.
	Ask(context.Context) (Question, error)
}

// Question is on its way. Close gives it up.
type Question interface {
	// Answer waits until ctx ends: nil when an answer came, ErrSilent when ctx ended first, and another error when the
	// connection did.
	Answer(ctx context.Context) error
	Close()
}

// ErrSilent says that a question was not answered in time.
var ErrSilent = errors.New("no answer has come")

// network carries out a step on links: each of them is a window of its own.
func (e *Engine) network(ctx context.Context, s plan.Step) error {
	route, err := s.Target.Route()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Fault, err)
	}
	var trig trigger
	if s.On != "" {
		of := s
		of.Target = plan.Target(route.From)
		holder := of.Target == plan.Holder
		h, heard := e.await(ctx, of, !holder)
		if !heard {
			e.missed(s, trig, contract.Process(s.Target), unheard(s))
			return nil
		}
		if trig = h.trigger; holder {
			defer e.release(h.target)
			route = route.Resolved(plan.Holder, h.target)
		}
	}
	if leads := contract.Process(plan.EtcdLeader); route.From == leads || route.To == leads {
		name, err := e.leader(ctx)
		if err != nil {
			e.missed(s, trig, contract.Process(s.Target), err.Error())
			return nil
		}
		route = route.Resolved(plan.EtcdLeader, name)
	}
	links, ok := e.links(ctx, s, trig, e.plan.Hops(route))
	defer e.letGo(links)
	if !ok {
		return nil
	}
	if !wait(ctx, time.Duration(s.Delay)) {
		e.missed(s, trig, contract.Process(s.Target), "the drive has ended before")
		return nil
	}
	return e.breakLinks(ctx, s, trig, links)
}

// links takes all links of a step, and gives those that it took.
func (e *Engine) links(ctx context.Context, s plan.Step, trig trigger, all []contract.Link) (taken []contract.Link, ok bool) {
	// All steps take them in one order: none waits for another that waits for it.
	slices.SortFunc(all, func(a, b contract.Link) int { return cmp.Compare(a.String(), b.String()) })
	for _, l := range all {
		p := contract.Process(l.String())
		if !e.takeWithin(ctx, p, false) {
			e.missed(s, trig, p, e.heldBack(ctx, l.String()))
			return taken, false
		}
		taken = append(taken, l)
	}
	return taken, true
}

func (e *Engine) letGo(links []contract.Link) {
	for _, l := range links {
		e.release(contract.Process(l.String()))
	}
}

// breakLinks opens a window on every link at once, and returns when all are closed.
func (e *Engine) breakLinks(ctx context.Context, s plan.Step, trig trigger, links []contract.Link) error {
	stack, ok := e.stack.(Hops)
	if !ok {
		return fmt.Errorf("%s on %s: nobody can break the links of this stack", s.Fault, s.Target)
	}
	// The end may come while the injection is still being seen, so it is listened for from before.
	var end <-chan struct{}
	if s.Until != "" {
		l := e.heard.listen(func(ev *history.Event) bool { return ends(s.Until, trig, ev) })
		defer l.close()
		end = l.heard
	}
	var work sync.WaitGroup
	errs := make([]error, len(links))
	for i, l := range links {
		h, err := stack.Hop(l)
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", s.Fault, err)
			continue
		}
		work.Go(func() {
			if why := e.dead(ctx, s, h); why != "" {
				e.missed(s, trig, contract.Process(l.String()), why)
				return
			}
			if err := e.hold(ctx, s, contract.Process(l.String()), trig, &onLink{fault: linkFault(s, h), e: e, server: l.To}, end); err != nil {
				errs[i] = fmt.Errorf("%s on %s: %w", s.Fault, l, err)
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// dead asks over a link before it is broken, and says why it cannot be: silence on a link that was silent already proves
// nothing. A step that no event began waits a while for whoever is down.
func (e *Engine) dead(ctx context.Context, s plan.Step, h Hop) (why string) {
	limit := e.patience
	if s.On != "" {
		limit = min(limit, injectTimeout)
	}
	err := within(ctx, limit, func(ctx context.Context) error { return answers(ctx, h, limit) })
	if err != nil && ctx.Err() != nil {
		return "the drive has ended before"
	} else if err != nil {
		return fmt.Sprintf("it is not whole, whoever is at its other end may be down: %v", err)
	}
	return ""
}

// AttrHeld names in the log of a window whose effect was not seen who was in another step's hands meanwhile: with nobody at the
// end of a link, nobody can tell whether it is broken.
const AttrHeld = "held"

// onLink is a fault of a link whose server another step may take away while its effect is being looked for.
type onLink struct {
	fault
	e      *Engine
	server contract.Process
	held   bool
}

func (f *onLink) limits() (inject, heal time.Duration) { return limits(f.fault) }

func (f *onLink) inject(ctx context.Context) error {
	begun := time.Now()
	err := f.fault.inject(ctx)
	if f.held = err != nil && !errors.Is(err, errAnswered) && f.e.heldSince(f.server, begun); f.held {
		return fmt.Errorf("another step had %s in its hands: %w", f.server, err)
	}
	return err
}

func (f *onLink) attrs() map[string]string {
	if !f.held {
		return nil
	}
	return map[string]string{AttrHeld: string(f.server)}
}

func linkFault(s plan.Step, h Hop) fault {
	switch d := s.Direction(); s.Fault {
	case plan.Hold:
		return &hold{hop: h, direction: d}
	case plan.Slow:
		return slowed{h, d, *s.Network}
	case plan.Reset:
		return reset{h, d}
	default:
		return cut{h, d}
	}
}

// Times of the questions.
const (
	// silence is how long a question stays without an answer before that counts as silence: many times what a whole link
	// needs.
	silence = 200 * time.Millisecond
	// askEvery is how long it takes from one question to the next while a link is to work again.
	askEvery = 20 * time.Millisecond
)

// healsWithin is how long a link may take until it is seen to work again: whoever is at its other end may have been killed
// meanwhile, and nobody answers before he has been started.
const healsWithin = restartLimit

// errAnswered says that a link is whole that was to be broken.
var errAnswered = errors.New("a question over the link was answered all the same")

// answeredAfter is errAnswered with the time from the question to its answer.
type answeredAfter struct{ after time.Duration }

func (a answeredAfter) Error() string {
	return fmt.Sprintf("%v, after %s", errAnswered, a.after.Round(time.Microsecond))
}
func (a answeredAfter) Is(target error) bool { return target == errAnswered }

// unanswered returns nil when a question on a fresh connection is not answered for d.
func unanswered(ctx context.Context, h Hop, d time.Duration) error {
	q, err := silent(ctx, h, d)
	if err == nil {
		q.Close()
	}
	return err
}

// silent asks until a question is not answered for d, and returns that one. A connection that ends proves nothing: that is
// how the link of somebody who is down behaves, broken or not. It is asked again.
func silent(ctx context.Context, h Hop, d time.Duration) (Question, error) {
	for {
		asked := time.Now()
		q, err := h.Ask(ctx)
		if err == nil {
			err = within(ctx, d, q.Answer)
			if errors.Is(err, ErrSilent) && ctx.Err() == nil {
				return q, nil
			}
			q.Close()
			if err == nil {
				return nil, answeredAfter{time.Since(asked)}
			}
		}
		if !wait(ctx, askEvery) {
			return nil, fmt.Errorf("a question over the link does not stay without an answer, whoever is at its other end may be down: %w", err)
		}
	}
}

func within(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}

// answers asks again and again until an answer comes within d.
func answers(ctx context.Context, h Hop, d time.Duration) error {
	for {
		err := answer(ctx, h, d)
		if err == nil {
			return nil
		}
		if !wait(ctx, askEvery) {
			return fmt.Errorf("a question over the link is still not answered: %w", err)
		}
	}
}

func answer(ctx context.Context, h Hop, d time.Duration) error {
	return within(ctx, d, func(ctx context.Context) error {
		q, err := h.Ask(ctx)
		if err != nil {
			return err
		}
		defer q.Close()
		return q.Answer(ctx)
	})
}

// how says what a step does to its links.
func how(s plan.Step) string {
	what := fmt.Sprintf("%s of %s", s.Direction(), s.Target)
	if s.Direction() == plan.BothWays {
		what = string(s.Target)
	}
	if n := s.Network; s.Fault == plan.Slow {
		what += fmt.Sprintf(" by %s ± %s", n.Latency, n.Jitter)
		if n.KBPerSecond > 0 {
			what += fmt.Sprintf(" at %d KB/s", n.KBPerSecond)
		}
	}
	return what
}
