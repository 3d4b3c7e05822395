package invariant

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// schedule drives a world with clients that may be stopped between any two steps, lose their locks at any moment, give up
// and leave a request behind that is carried out much later, or send one twice.
type schedule struct {
	*world
	rng     *rand.Rand
	clients []*client
	late    []*request // whose clients do not wait for them any more
}

type client struct {
	name    string
	account string
	token   int64
	plan    *plan    // what it has decided to do, on what it saw then
	open    *request // what it has sent and not heard of
}

type plan struct {
	op      contract.Op
	payout  string
	reports contract.Outcome
}

func newSchedule(seed uint64) *schedule {
	s := &schedule{world: newWorld(), rng: rand.New(rand.NewPCG(seed, 1))}
	s.openAccount("clearing", 0)
	for _, account := range []string{"alice", "bob"} {
		s.openAccount(account, one(s.rng, []int64{150, 100000}))
		for i := range 4 {
			s.order(fmt.Sprintf("%s-%d", account, i), account, 100)
		}
	}
	for i := range 3 {
		s.clients = append(s.clients, &client{name: fmt.Sprintf("executor-%d", i+1)})
	}
	return s
}

func (s *schedule) chance(percent int) bool {
	return s.rng.IntN(100) < percent
}

func one[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

func (s *schedule) run(steps int, faults bool) {
	for range steps {
		c := one(s.rng, s.clients)
		switch {
		case len(s.late) > 0 && s.chance(20):
			i := s.rng.IntN(len(s.late))
			if s.advance(s.late[i], faults) {
				s.reply(s.late[i])
				s.late = slices.Delete(s.late, i, i+1)
			}
		case c.open != nil:
			s.wait(c, faults)
		case c.token == 0 || s.chance(5):
			c.account = one(s.rng, []string{"alice", "bob"})
			c.token, c.plan = s.acquire(c.name, c.account), nil
		default:
			s.next(c, faults)
		}
		if s.chance(5) {
			s.watermarks()
		}
	}
	for i, r := range s.late {
		if i%2 == 0 {
			s.loseAnswer(r)
		}
	}
	s.watermarks()
}

// wait lets c's request come further, or c give up.
func (s *schedule) wait(c *client, faults bool) {
	if faults && s.chance(10) {
		s.late = append(s.late, c.open)
		c.open, c.token = nil, 0
		return
	}
	if !s.advance(c.open, faults) {
		return
	}
	r := c.open
	c.open = nil
	if faults && s.chance(5) {
		s.loseAnswer(r)
		c.token = 0
		return
	}
	s.reply(r)
	if r.answer.status != 200 {
		if r.Op != contract.OpSubmit || r.answer.code == contract.FencedOut {
			c.token = 0
		}
	}
	if faults && r.Op.AtPayment() && s.chance(10) {
		again := *r
		again.executed = false
		again.Event = s.send(r.Event).Event
		s.late = append(s.late, &again)
	}
}

// advance carries a request out by one step, and tells whether it is done.
func (s *schedule) advance(r *request, faults bool) bool {
	switch {
	case !r.executed && r.Op == contract.OpSubmit:
		r.executed = true
		s.submitIntent(r)
		return r.intent == nil
	case !r.executed:
		s.execute(r)
	case r.intent != nil:
		outcome, moves := contract.OutcomeAcked, true
		if faults && s.chance(20) {
			outcome, moves = contract.OutcomeTimeout, s.chance(50)
		} else if faults && s.chance(10) {
			outcome, moves = contract.OutcomeRejected, false
		}
		s.forwardToRail(r, outcome, moves)
	}
	return true
}

// next lets c decide, as the executor of the contract would or now and then otherwise, or send what it has decided. Much
// may happen in between: that is the pause that fencing is for.
func (s *schedule) next(c *client, faults bool) {
	if c.plan == nil {
		if c.plan = s.decide(c, faults); c.plan == nil {
			c.token = 0
		}
		return
	}
	c.open = s.ask(c.name, c.plan.op, c.plan.payout, c.token)
	c.open.reports, c.plan = c.plan.reports, nil
}

func (s *schedule) decide(c *client, faults bool) *plan {
	p := s.pick(c)
	if p == nil {
		return nil
	}
	d := &plan{op: contract.OpClaim, payout: p.id}
	switch {
	case faults && s.chance(5):
		d.op = one(s.rng, []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpPost})
	case p.state == contract.RailAmbiguous:
		d.op = contract.OpResolve
	case p.token != c.token:
	case p.state == contract.Claimed:
		d.op = contract.OpSubmitted
	case p.state == contract.RailSubmitted && s.attempts[p.id] == nil:
		d.op = contract.OpSubmit
	case p.state == contract.RailSubmitted:
		d.op, d.reports = contract.OpOutcome, s.attempts[p.id].outcome
		if d.reports == "" {
			d.reports = contract.OutcomeTimeout
		}
	case p.state == contract.RailAcked:
		d.op = contract.OpPost
	}
	return d
}

// pick is the payout of the account that is in flight, else a pending one, else an ambiguous one that has settled.
func (s *schedule) pick(c *client) *worldPayout {
	for _, states := range [][]contract.State{{contract.Claimed, contract.RailSubmitted, contract.RailAcked}, {contract.Pending}, {contract.RailAmbiguous}} {
		for _, id := range sortedKeys(s.payouts) {
			p := s.payouts[id]
			if p.account == c.account && slices.Contains(states, p.state) && (p.state != contract.RailAmbiguous || s.settled(id)) {
				return p
			}
		}
	}
	return nil
}

// settled: nothing of the payout is still on its way to the rail.
func (s *schedule) settled(id string) bool {
	onItsWay := func(r *request) bool { return r != nil && r.Op == contract.OpSubmit && r.Payout == id }
	for _, c := range s.clients {
		if onItsWay(c.open) {
			return false
		}
	}
	return !slices.ContainsFunc(s.late, onItsWay)
}

// seeds is how many schedules a test runs.
const seeds = 120

func TestNoScheduleOfAHealthySystemRaisesAnAlarm(t *testing.T) {
	met := map[string]int64{}
	for seed := range uint64(seeds) {
		s := newSchedule(seed)
		s.run(400, true)
		for id, inv := range judged(s.events, nil) {
			if inv.Found != 0 {
				t.Fatalf("seed %d: %s: %s", seed, id, inv.Reason)
			}
			met[id] += inv.Checked
			for counter, n := range inv.Danger {
				met[counter] += n
			}
		}
	}
	for _, what := range append(slices.Clone(judgedIDs), "sent_stale_payment", "sent_stale_rail", "stale_refused_payment", "stale_refused_rail", "takeovers", "resubmitted_payouts", "regrants") {
		if met[what] == 0 {
			t.Errorf("no schedule met %s", what)
		}
	}
}

func TestAFenceSwitchedOffBringsDownItsOwnInvariantsAndNoOthers(t *testing.T) {
	for _, c := range []struct {
		name          string
		payment, rail bool
		must, may     []string
	}{
		{"payment-off", true, false, []string{"INV-01", "INV-03", "INV-05"}, nil},
		{"rail-off", false, true, []string{"INV-02", "INV-05"}, []string{"INV-03"}},
		{"off", true, true, []string{"INV-01", "INV-02", "INV-03", "INV-05"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fell := map[string]bool{}
			for seed := range uint64(seeds) {
				s := newSchedule(seed)
				s.paymentOff, s.railOff = c.payment, c.rail
				s.run(400, false)
				for id, inv := range s.judgement() {
					fell[id] = fell[id] || inv.Found > 0
					if inv.Found > 0 && !slices.Contains(c.must, id) && !slices.Contains(c.may, id) {
						t.Fatalf("seed %d: %s fell: %s", seed, id, inv.Reason)
					}
				}
			}
			for _, id := range c.must {
				if !fell[id] {
					t.Errorf("%s never fell", id)
				}
			}
		})
	}
}

// interleave shuffles the witnesses' streams into one another; each keeps its own order.
func interleave(rng *rand.Rand, events []history.Event) []history.Event {
	streams := map[history.Witness][]history.Event{}
	for _, e := range events {
		streams[e.W] = append(streams[e.W], e)
	}
	names := sortedKeys(map[string][]history.Event{"wiretap": nil, "paydb": nil, "lockdb": nil, "journal": nil})
	var out []history.Event
	for len(out) < len(events) {
		w := history.Witness(one(rng, names))
		n := min(one(rng, []int{1, 3, 20, 1000}), len(streams[w]))
		out = append(out, streams[w][:n]...)
		streams[w] = streams[w][n:]
	}
	for i := range out {
		out[i].I = int64(i + 1)
	}
	return out
}

// gist is what of a verdict must not depend on how the witnesses were interleaved.
func gist(v map[string]verdict.Invariant) string {
	var s string
	for _, id := range append(slices.Clone(judgedIDs), restIDs...) {
		inv := v[id]
		s += fmt.Sprintf("%s %s checked %d found %d unresolved %d danger %v\n", id, inv.Status, inv.Checked, inv.Found, inv.Unresolved, inv.Danger)
	}
	return s
}

func TestTheVerdictDoesNotDependOnTheOrderOfArrivalAcrossWitnesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSchedule(rapid.Uint64().Draw(t, "seed"))
		s.paymentOff, s.railOff = rapid.Bool().Draw(t, "payment off"), rapid.Bool().Draw(t, "rail off")
		s.run(rapid.IntRange(20, 400).Draw(t, "steps"), true)
		want := gist(s.judgement())
		if got := gist(judgedUnder(s.fencing(), interleave(s.rng, s.events), nil)); got != want {
			t.Fatalf("in the order in which things happened:\n%sotherwise:\n%s", want, got)
		}
	})
}
