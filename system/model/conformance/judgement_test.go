package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"fenceproof/system/model"
)

// at is the token that the requests of this table present, in the model's numbers.
const at model.Token = 10

// base puts the table where a token in a floating-point number would lose its last bit.
const base = 1<<53 - int64(at)

// situation is what a request meets.
type situation struct {
	model.Books
	notes   [model.Payouts]model.Note
	request model.Request
	fates   []model.Fate // of the call to the rail, where the request gets that far; one after the other, each anew
}

// plan is a world for single requests: two payouts of 2, and opening funds as the books say.
func plan(payoff, railoff bool) model.Protocol {
	w := model.Plenty()
	w.Fates = append(w.Fates, model.Declined)
	return model.Protocol{World: w, Variant: model.Variant{PaymentOff: payoff, RailOff: railoff}}
}

// claims are the claim tokens that a payout in this state may carry: none, below, at and above the token presented.
func claims(s model.PayoutState) []model.Token {
	switch s {
	case model.Pending:
		return []model.Token{0}
	case model.Failed:
		return []model.Token{0, at - 3, at, at + 3}
	}
	return []model.Token{at - 3, at, at + 3}
}

// requests are all that payment-resource can be asked about P0.
func requests() []model.Request {
	qs := []model.Request{{Op: model.Submitted}, {Op: model.Post}}
	for _, s := range model.AllPayoutStates() {
		qs = append(qs, model.Request{Op: model.Claim, Expected: s})
	}
	for _, f := range []model.Finding{model.Acked, model.Rejected, model.Timeout} {
		qs = append(qs, model.Request{Op: model.Outcome, Finding: f})
	}
	for _, f := range []model.Finding{model.Acked, model.Absent, model.ByOperator} {
		qs = append(qs, model.Request{Op: model.Resolve, Finding: f})
	}
	for i := range qs {
		qs[i].Token = at
	}
	return qs
}

// put makes P0 be in state s, claimed under claim.
func (s *situation) put(state model.PayoutState, claim model.Token) {
	s.Payouts[0].State, s.Payouts[0].Claim = state, claim
	if state == model.Posted {
		s.Payouts[0].Debited, s.notes[0].LegToken = 1, claim
	}
}

// everyRequest is every state × claim token × fence × request, with funds and nothing else of the account under way.
func everyRequest() []situation {
	var all []situation
	for _, state := range model.AllPayoutStates() {
		for _, claim := range claims(state) {
			for _, fence := range []model.Token{0, at - 1, at, at + 1} {
				for _, q := range requests() {
					s := situation{request: q}
					s.Balance, s.Fence = 7, fence
					s.put(state, claim)
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// everyNeighbour is what a claim of a pending payout and a post meet: every state of the account's other payout, every
// balance around what the two need, a token that passes the fence and one that does not.
func everyNeighbour() []situation {
	var all []situation
	for _, other := range model.AllPayoutStates() {
		for balance := model.Money(1); balance <= 4; balance++ {
			for _, fence := range []model.Token{at - 1, at} {
				for _, q := range []model.Request{{Op: model.Claim, Token: at}, {Op: model.Post, Token: at}} {
					s := situation{request: q}
					s.Balance, s.Fence = balance, fence
					s.put(model.Pending, 0)
					if q.Op == model.Post {
						s.put(model.RailAcked, at-1)
					}
					s.Payouts[1] = model.Payout{State: other, Claim: at - 2}
					if other == model.Pending {
						s.Payouts[1].Claim = 0
					}
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// everySubmission is every state × record of an attempt × mark for a submission, with every fate of the call to the rail.
func everySubmission() []situation {
	var all []situation
	for _, state := range model.AllPayoutStates() {
		for _, record := range []model.Finding{model.NoFinding, model.Open, model.Acked, model.Rejected, model.Timeout} {
			for _, mark := range []model.Token{0, at - 1, at, at + 1} {
				s := situation{request: model.Request{Op: model.Submit, Token: at}}
				s.Balance, s.Mark = 7, mark
				s.put(state, at)
				if state == model.Pending {
					s.put(state, 0)
				}
				if record != model.NoFinding {
					s.Payouts[0].Attempt, s.notes[0].AttemptToken = record, at-3
				}
				s.fates = []model.Fate{model.Acknowledged, model.ReplyLost, model.NeverArrived, model.Declined}
				all = append(all, s)
			}
		}
	}
	return all
}

func TestEveryRequestInEverySituationIsAnsweredAsTheModelSays(t *testing.T) {
	s := start(t)
	for name, table := range map[string][]situation{"request": everyRequest(), "neighbour": everyNeighbour(), "submission": everySubmission()} {
		for _, off := range []bool{false, true} {
			t.Run(fmt.Sprintf("every %s, fencing off %v", name, off), func(t *testing.T) {
				t.Parallel()
				inParallel(t, len(table), func(ctx context.Context, i int) error {
					if err := s.meet(ctx, plan(off, off), table[i]); err != nil {
						return fmt.Errorf("%v to %v: %w", table[i].request, table[i].Books, err)
					}
					return nil
				})
			})
		}
	}
}

// meet sends a situation's request, once for every fate.
func (s *services) meet(ctx context.Context, p model.Protocol, sit situation) error {
	fates := sit.fates
	if fates == nil {
		fates = []model.Fate{model.Acknowledged}
	}
	for _, fate := range fates {
		r := model.NewReference(p)
		r.State.Books, r.Notes = sit.Books, sit.notes
		u, err := s.admit(ctx, r, base)
		if err != nil {
			return err
		}
		forwarded, err := u.sendTwice(ctx, sit.request, fate)
		u.end()
		if err != nil || !forwarded {
			return err // without a call to the rail there is nothing that the other fates could change
		}
	}
	return nil
}

// sendTwice sends q, lets the rail meet its fate where q gets that far, and then, where that took effect, repeats q as
// it was and with another body.
func (u *subject) sendTwice(ctx context.Context, q model.Request, fate model.Fate) (forwarded bool, err error) {
	a := u.model.Deliver(q)
	if err := u.reach(ctx, q, a, 0); err != nil {
		return false, err
	}
	if a.Code == model.Forwarding {
		if err := u.forward(ctx, q.Forwarding(a), fate); err != nil {
			return true, err
		}
	}
	if u.model.Protocol.RailOff && q.Op == model.Submit {
		return true, nil // the next one is forwarded as well, and the table has it already
	}
	if _, known := u.told[q]; !known && a.Code != model.Forwarding {
		return false, nil
	}
	for _, again := range []model.Request{q, otherBody(q)} {
		if err := u.reach(ctx, again, u.model.Deliver(again), 0); err != nil {
			return false, err
		}
	}
	return a.Code == model.Forwarding, nil
}

// otherBody is q with another body, where a body of its kind can say something else.
func otherBody(q model.Request) model.Request {
	switch q.Op {
	case model.Claim:
		q.Expected = model.Abandoned
	case model.Outcome:
		q.Finding = otherThan(q.Finding, model.Rejected, model.Timeout)
	case model.Resolve:
		q.Finding = otherThan(q.Finding, model.Acked, model.ByOperator)
	}
	return q
}

func otherThan(f, one, two model.Finding) model.Finding {
	if f == one {
		return two
	}
	return one
}

// forward lets the model's one late call arrive with this fate.
func (u *subject) forward(ctx context.Context, q model.Request, fate model.Fate) error {
	for _, step := range u.model.Protocol.Successors(u.model.State, nil) {
		if step.Action.Kind == model.Arrive && step.Action.Request == q && step.Action.Fate == fate {
			u.model.Take(step)
			return u.reach(ctx, q, step.Answer, fate)
		}
	}
	return fmt.Errorf("the model has no %v that ends %v", q, fate)
}

// workers is how many accounts are worked on at once.
const workers = 8

// inParallel does n things, several at once, and reports what goes wrong; after a few failures it stops.
func inParallel(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var next, failed int
	var mu sync.Mutex
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= n && failed < 3
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := do(ctx, i); err != nil {
					mu.Lock()
					failed++
					t.Error(err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
}
