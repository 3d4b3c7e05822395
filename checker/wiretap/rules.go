package wiretap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// Side is the message of a call that a rule is about.
type Side string

// The two messages of a call.
const (
	Request Side = "request"
	Answer  Side = "answer"
)

// Action is what a rule does to its message.
type Action string

// The actions. To reorder two messages, hold the first and release it when the second has passed.
const (
	Drop      Action = "drop"      // it never arrives; the client hears nothing until it gives up
	Delay     Action = "delay"     // it arrives Rule.Delay later
	Hold      Action = "hold"      // it arrives when the rule is released
	Duplicate Action = "duplicate" // requests: Rule.Delay after its answer it is sent once more, as a call of its own
)

// Rule meets one message on a relay's link and does something to it.
type Rule struct {
	Side   Side
	Op     contract.Op // "" meets any
	Payout string      // "" meets any
	Nth    int         // the n-th such message from now on, from 1; 0 stands for 1
	Action Action
	Delay  time.Duration // Delay and Duplicate
	// Claim, where there is one, is asked when the rule's message has come, under the relay's lock: false leaves the message
	// alone and spends the rule. Rules of several relays that share one meet one message together.
	Claim func() bool
}

// Applied is a rule that was given to a relay. It meets one message and is spent.
type Applied struct {
	rule     Rule
	left     int // messages still to come until the one it meets
	met      chan struct{}
	event    history.Event // of the call that was met
	released chan struct{}
	once     sync.Once
}

// Met is closed when the message has come.
func (a *Applied) Met() <-chan struct{} { return a.met }

// Event says what was known of the call when its message was met, its number first of all; it may be asked once Met is
// closed.
func (a *Applied) Event() history.Event { return a.event }

// Release lets a held or delayed message go at once. A rule that has not met its message yet never will. It may be called
// any number of times.
func (a *Applied) Release() { a.once.Do(func() { close(a.released) }) }

func (a *Applied) isReleased() bool {
	select {
	case <-a.released:
		return true
	default:
		return false
	}
}

func (r Rule) describes(side Side, e *history.Event) bool {
	return r.Side == side && (r.Op == "" || r.Op == e.Op) && (r.Payout == "" || r.Payout == e.Payout)
}

// Apply gives the relay a rule. A rule that makes no sense is an error; so is one that duplicates a transfer, as the
// rail is not idempotent: every transfer that arrives moves money, and no fence could refuse the second.
func (r *Relay) Apply(rule Rule) (*Applied, error) {
	var wrong error
	switch {
	case rule.Side != Request && rule.Side != Answer:
		wrong = fmt.Errorf("%q is no side: request or answer", rule.Side)
	case rule.Nth < 0:
		wrong = fmt.Errorf("there is no message number %d", rule.Nth)
	case rule.Action == Delay && rule.Delay <= 0:
		wrong = errors.New("a delay needs a duration")
	case rule.Action == Duplicate && rule.Side != Request:
		wrong = errors.New("only requests can be duplicated")
	case rule.Action == Duplicate && (rule.Op == contract.OpTransfer || rule.Op == ""):
		wrong = errors.New("name an operation to duplicate that is no transfer: each one moves money")
	}
	switch rule.Action {
	case Drop, Delay, Hold, Duplicate:
	default:
		wrong = fmt.Errorf("%q is no action: drop, delay, hold or duplicate", rule.Action)
	}
	if wrong != nil {
		return nil, fmt.Errorf("apply a rule to %s: %w", r.cfg.Link, wrong)
	}
	a := &Applied{rule: rule, left: max(rule.Nth, 1), met: make(chan struct{}), released: make(chan struct{})}
	r.rules.add(a)
	return a, nil
}

// rules are the rules of a relay that have not met their message yet.
type rules struct {
	count   atomic.Int64 // len(waiting): the usual call takes no lock
	mu      sync.Mutex
	waiting []*Applied
}

func (s *rules) add(a *Applied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, a)
	s.count.Add(1)
}

// meet shows a message to the rules and returns the one whose message it is, nil as a rule. Each rule that waits for
// such a message counts it; where two meet the same one, the one applied first has it and the other waits for the next.
func (s *rules) meet(side Side, k *call) *Applied {
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var hit *Applied
	rest := s.waiting[:0]
	for _, a := range s.waiting {
		if a.isReleased() {
			s.count.Add(-1)
			continue
		}
		if a.rule.describes(side, &k.event) {
			if a.left > 1 {
				a.left--
			} else if hit == nil {
				if a.rule.Claim == nil || a.rule.Claim() {
					hit = a
				} else {
					s.count.Add(-1)
				}
				continue
			}
		}
		rest = append(rest, a)
	}
	clear(s.waiting[len(rest):])
	s.waiting = rest
	if hit != nil {
		s.count.Add(-1)
		hit.event = k.event
		close(hit.met)
	}
	return hit
}

// drops, duplicates and wait take a nil rule for none.
func (a *Applied) drops() bool      { return a != nil && a.rule.Action == Drop }
func (a *Applied) duplicates() bool { return a != nil && a.rule.Action == Duplicate }

// wait keeps the message as long as the rule says, and returns a note for its next event.
func (a *Applied) wait(ctx context.Context) string {
	if a == nil || a.rule.Action != Delay && a.rule.Action != Hold {
		return ""
	}
	a.pause(ctx)
	return fmt.Sprintf("the %s was kept back by a rule (%s)", a.rule.Side, a.rule.Action)
}

// pause waits for the delay, for ever where it is a hold, or until it is released.
func (a *Applied) pause(ctx context.Context) {
	var over <-chan time.Time
	if a.rule.Action != Hold {
		t := time.NewTimer(a.rule.Delay)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
	case <-a.released:
	case <-ctx.Done():
	}
}

// duplicate sends a copy of the request in m, a call of its own, on a connection of its own. Nobody gets its answer. dup
// is the original call as it was when its request had come.
func (r *Relay) duplicate(dup call, m *message, rule *Applied) {
	req := *m
	req.raw = append([]byte(nil), m.raw...)
	dup.event.DupOf = dup.event.Call
	r.wg.Go(func() {
		rule.pause(r.ctx)
		if r.ctx.Err() != nil {
			return
		}
		dup.event.Call = calls.Add(1)
		dup.received()
		up, err := r.dial()
		if err != nil {
			dup.unanswered(fmt.Sprintf("refused: nothing was sent: %v", err))
			return
		}
		defer r.untrack(up.Conn)
		dup.forwarded("")
		var res message
		a := up.exchange(&req, &res, dup.method)
		if a.err != nil {
			dup.unanswered(fmt.Sprintf("cut: %v, after %d bytes of an answer", a.err, len(res.raw)))
			return
		}
		dup.answered(a.status, res.body)
		dup.mark(history.Lost, contract.Info, "the answer to a duplicate: nobody waits for it")
	})
}
