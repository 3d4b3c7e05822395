package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"fenceproof/checker/contract"
)

// The two times of the run profile that a plan must leave room for.
const (
	// SettlementWindow is RECONCILER_SETTLEMENTWINDOW: after it the reconciler takes a transfer that the look-up does not
	// show for one that never was.
	SettlementWindow = 5 * time.Second
	// RailTimeout is RAIL_PROXY_TIMEOUT: after it the proxy forwards nothing, unless it is stopped in between.
	RailTimeout = 200 * time.Millisecond
)

// passing is how long a message on its way to the rail needs at most to get through where nothing holds it. Two holds
// with less than that between them may hold the same message, one after the other.
const passing = time.Second

// HeldFor is how long p may hold one message on its way to the rail: by stopping rail-proxy or rail-stub, by a fault of
// the link between them, and by keeping the message itself back there. A stop that waits for an event may follow any other. Killing them
// holds nothing: what a process has in its hands is gone with it.
func (p Plan) HeldFor() time.Duration {
	var stops []Step
	var waiting, kept time.Duration
	for _, s := range p.Steps {
		stopped := s.Fault == Pause && (s.Target == Target(contract.RailProxy) || s.Target == Target(contract.RailStub))
		switch onRail := s.onRail(p); {
		case onRail && s.passesLate() < time.Duration(s.For):
			kept = max(kept, s.passesLate())
		case (stopped || onRail) && s.Timed():
			stops = append(stops, s)
		case stopped || onRail:
			waiting += time.Duration(s.For)
		case (s.Fault == Delay || s.Fault == Reorder) && onRailLink(s.Target):
			kept = max(kept, time.Duration(s.For))
		}
	}
	slices.SortFunc(stops, func(a, b Step) int { return int(a.At - b.At) })
	var longest, from, to time.Duration
	for i, s := range stops {
		begin, end := time.Duration(s.At), time.Duration(s.At+s.For)
		if i == 0 || begin > to+passing {
			from, to = begin, end
		}
		to = max(to, end)
		longest = max(longest, to-from)
	}
	return longest + waiting + kept
}

func onRailLink(t Target) bool {
	l, err := t.Link()
	return err == nil && l == contract.Link{From: contract.RailProxy, To: contract.RailStub}
}

// validateRail refuses habits of the rail that are none, and a plan that takes from the reconciler the one assumption
// about time that it rests on (page 1.4 of the contract): when its window is over, nothing may be on its way any more.
func (p Plan) validateRail() error {
	var errs []error
	share := func(name string, v float64) {
		if !(v >= 0 && v <= 1) {
			errs = append(errs, fmt.Errorf("%s is %v; a share of all transfers is 0 to 1", name, v))
		}
	}
	share("declines", p.Declines)
	share("lostReplies", p.LostReplies)
	if p.LookupLag < 0 || p.LookupLag%Duration(time.Millisecond) != 0 {
		errs = append(errs, fmt.Errorf("lookupLag is %s; it is 0 or more, in whole milliseconds", p.LookupLag))
	}
	held, lag := p.HeldFor(), time.Duration(p.LookupLag)
	if held+RailTimeout+lag >= SettlementWindow {
		errs = append(errs, fmt.Errorf("a transfer may be held for %s on its way to the rail, and with the proxy's timeout (%s) and the look-up's lag (%s) that reaches the settlement window (%s): the reconciler would take it for absent and then it would come; hold less",
			held, RailTimeout, lag, SettlementWindow))
	}
	return errors.Join(errs...)
}

// validateOverlaps refuses steps by time that stop one process twice at once, or leave no executor to take over.
func (p Plan) validateOverlaps() error {
	var timed []Step
	most := 0
	for _, s := range p.Steps {
		switch {
		case s.Timed():
			timed = append(timed, s)
		case !s.Fault.OnMessage() && !s.Fault.OnLink() && !s.Fault.OnKey() && s.stops():
			most = p.Together // by events, at any time
		}
	}
	var errs []error
	held := make([][]grip, len(timed))
	for i, s := range timed {
		held[i] = p.grips(s, false)
	}
	for i, s := range timed {
		stopped := most
		for j, o := range timed {
			if o.stops() && o.At <= s.At && s.At < o.end() {
				stopped++
			}
			if o.At < s.At || o.At == s.At && j < i {
				errs = append(errs, collision(o, s, held[j], held[i]))
			}
		}
		if n, noun := p.holders(); s.stops() && stopped >= n {
			errs = append(errs, fmt.Errorf("at %s all %d %s may be stopped, and nobody is left to take over", s.At, n, noun))
		}
	}
	return errors.Join(errs...)
}

// stops tells whether s keeps somebody from working who holds keys. A clock that is wrong keeps nobody.
func (s Step) stops() bool { return s.Target.holds() && s.Fault != Clock }

// collision refuses a step that has a process, or a link, in its hands while another one has it, and a backup that would be
// taken before an older one has been put back.
func collision(first, second Step, held, taken []grip) error {
	if first.Fault.OnStore() && second.Fault.OnStore() && second.At < first.end() {
		return fmt.Errorf("the %s at %s takes its backup before that of %s is over, at %s", second.Fault, second.At, first.At, first.end())
	}
	for _, g := range taken {
		switch {
		case !slices.ContainsFunc(held, g.overlaps):
		case second.Fault.OnLink():
			return fmt.Errorf("%s is broken by %s at %s and by %s again at %s, before it is healed", g.target, first.Fault, first.At, second.Fault, second.At)
		case first.Fault != Pause || second.Fault != Pause:
			return fmt.Errorf("%s is hit by %s at %s and by %s at %s, before the first is over", g.target, first.Fault, first.At, second.Fault, second.At)
		default:
			return fmt.Errorf("%s is stopped at %s and is stopped again at %s, before it goes on", g.target, first.At, second.At)
		}
	}
	return nil
}

// Timed tells whether s begins at its time and waits for nothing.
func (s Step) Timed() bool { return s.On == "" && !s.Fault.OnMessage() }
