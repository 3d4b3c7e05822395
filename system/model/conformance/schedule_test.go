package conformance

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"fenceproof/system/model"
)

var (
	schedules = flag.Int("conformance.schedules", 200, "how many random schedules to compare with the system, and a third as many for each setting of the fencing switches")
	firstSeed = flag.Uint64("conformance.seed", 1, "seed of the first schedule; the others follow it")
)

// maxMoves bounds a schedule.
const maxMoves = 80

// move is one thing that a schedule does: a step of the model, or a request from outside the executors' protocol.
type move struct {
	action model.Action
	stray  model.Request // where its Op is not NoOp
}

// setting is what a schedule is played in; the seed decides it.
type setting struct {
	seed     uint64
	protocol model.Protocol
	base     int64
}

func (s setting) String() string {
	return fmt.Sprintf("seed %d, %v, %d executors, %d grants, %d late, opening %d, amounts %v, tokens %d + n × %d", s.seed,
		s.protocol.Variant, s.protocol.Executors, s.protocol.Grants, s.protocol.Late, s.protocol.Opening, s.protocol.Amounts, s.base, s.protocol.TokenStep)
}

// bases are where the tokens of a schedule may begin: at the very beginning, where a floating-point number would lose
// bits, and near the largest token there is.
var bases = []int64{0, 1, 1<<53 - 4, math.MaxInt64 - math.MaxUint8}

// draw makes the setting of a seed. The executors, the reconciler and the operator may be careless: what the resources
// answer to that is as much their business as what they answer to the careful.
func draw(seed uint64, paymentOff, railOff bool) (setting, *rand.Rand) {
	dice := rand.New(rand.NewPCG(seed, 0))
	chance := func(g model.Guard) model.Guards {
		if dice.IntN(4) == 0 {
			return model.GuardSet(g)
		}
		return 0
	}
	p := model.Protocol{World: model.World{
		Executors: 2 + dice.IntN(2), Grants: 2 + dice.IntN(3), Late: dice.IntN(model.MaxLate),
		Opening: model.Money(1 + dice.IntN(7)), TokenStep: model.Token(1 + dice.IntN(3)),
		Fates:    []model.Fate{model.Acknowledged, model.ReplyLost, model.NeverArrived, model.Declined},
		Operator: dice.IntN(3) == 0,
	}, Variant: model.Variant{PaymentOff: paymentOff, RailOff: railOff, Off: chance(model.Reread) | chance(model.Settled)}}
	for i := range p.Amounts {
		p.Amounts[i] = model.Money(1 + dice.IntN(3))
	}
	for _, m := range []model.Mistake{model.Resubmit, model.FreshToken} {
		if dice.IntN(8) == 0 {
			p.Mistakes |= model.MistakeSet(m)
		}
	}
	return setting{seed, p, bases[dice.IntN(len(bases))]}, dice
}

// player plays one schedule on the model and the system.
type player struct {
	*subject
	dice *rand.Rand
	sent []model.Request // what reached a resource, as often as it did
	met  []event
	told []string // the schedule so far, for people
}

func (s *services) player(ctx context.Context, set setting, dice *rand.Rand) (*player, error) {
	u, err := s.admit(ctx, model.NewReference(set.protocol), set.base)
	if err != nil {
		return nil, err
	}
	return &player{subject: u, dice: dice}, nil
}

// random plays a whole schedule and returns its moves. An error is a difference, or that the system did not answer.
func (p *player) random(ctx context.Context) ([]move, error) {
	defer p.end()
	var moves []move
	for range maxMoves {
		m, ok := p.choose()
		if !ok {
			break
		}
		moves = append(moves, m)
		if _, err := p.play(ctx, m); err != nil {
			return moves, err
		}
	}
	return moves, p.compare(ctx)
}

// replay plays those of the moves that are possible.
func (p *player) replay(ctx context.Context, moves []move) error {
	defer p.end()
	for _, m := range moves {
		if _, err := p.play(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// weights are how often a kind of step is taken, compared with the others that are possible.
var weights = map[model.Kind]int{model.Expire: 2, model.Acquire: 8, model.Die: 1, model.GiveUp: 2, model.Pick: 8, model.Look: 8, model.Send: 8, model.Arrive: 4}

// choose takes one of the possible moves.
func (p *player) choose() (move, bool) {
	if p.dice.IntN(8) == 0 {
		if q, ok := p.stray(); ok {
			return move{stray: q}, true
		}
	}
	steps := p.model.Protocol.Successors(p.model.State, nil)
	sum := 0
	for _, s := range steps {
		sum += weight(s.Action)
	}
	if sum == 0 {
		return move{}, false
	}
	at := p.dice.IntN(sum)
	for _, s := range steps {
		if at -= weight(s.Action); at < 0 {
			return move{action: s.Action}, true
		}
	}
	return move{}, false
}

func weight(a model.Action) int {
	if a.Request.Op.Forwards() && a.Fate == model.Acknowledged {
		return 5 * weights[a.Kind] // else few payouts get as far as a post
	}
	if a.Copied || (a.Request.Op == model.Resolve && a.Request.Finding == model.ByOperator) {
		return 2
	}
	return weights[a.Kind]
}

// stray is a request from outside the protocol: one that was sent before, or anything under a token that nobody holds.
func (p *player) stray() (model.Request, bool) {
	var q model.Request
	step := p.model.Protocol.TokenStep
	switch {
	case len(p.sent) > 0 && p.dice.IntN(2) == 0:
		q = p.sent[p.dice.IntN(len(p.sent))]
	case step > 1:
		granted := model.Token(p.dice.IntN(int(p.model.State.NextToken))) / step * step // and 1: grants are 1 + n × step
		q = anything(p.dice, granted+2+model.Token(p.dice.IntN(int(step-1))), p.model.State.Payouts)
	default:
		return q, false
	}
	return q, q.Op != model.Submit || p.model.State.Roomy()
}

// anything is any request under a token, as often as not one that its payout's state calls for.
func anything(dice *rand.Rand, t model.Token, payouts [model.Payouts]model.Payout) model.Request {
	q := model.Request{Op: model.Claim + model.Op(dice.IntN(6)), Payout: uint8(dice.IntN(model.Payouts)), Token: t}
	state := payouts[q.Payout].State
	if fits, ok := fitting[state]; ok && dice.IntN(2) == 0 {
		q.Op = fits
	}
	switch q.Op {
	case model.Claim:
		q.Expected = state
		if dice.IntN(4) == 0 {
			q.Expected = model.AllPayoutStates()[dice.IntN(len(model.AllPayoutStates()))]
		}
	case model.Outcome:
		q.Finding = []model.Finding{model.Acked, model.Rejected, model.Timeout}[dice.IntN(3)]
	case model.Resolve:
		q.Finding = []model.Finding{model.Acked, model.Absent, model.ByOperator}[dice.IntN(3)]
	}
	return q
}

// fitting is what a payout's state calls for.
var fitting = map[model.PayoutState]model.Op{
	model.Pending: model.Claim, model.Claimed: model.Claim, model.RailSubmitted: model.Claim, model.RailAcked: model.Post,
	model.RailAmbiguous: model.Resolve, model.Posted: model.Post,
}

// play makes a move on both sides and compares them; false: the move is not possible here.
func (p *player) play(ctx context.Context, m move) (bool, error) {
	if q := m.stray; q.Op != model.NoOp {
		if q.Op == model.Submit && !p.model.State.Roomy() {
			return false, nil
		}
		a := p.model.Deliver(q)
		p.told = append(p.told, fmt.Sprintf("stray %v: %v", q, a))
		return true, p.request(ctx, q, a, model.Acknowledged)
	}
	for _, step := range p.model.Protocol.Successors(p.model.State, nil) {
		if step.Action == m.action {
			p.told = append(p.told, step.String())
			return true, p.step(ctx, step)
		}
	}
	return false, nil
}

// step follows a step of the model.
func (p *player) step(ctx context.Context, s model.Step) error {
	before := p.model.State
	p.model.Take(s)
	switch s.Action.Kind {
	case model.Send, model.Arrive:
		return p.request(ctx, s.Action.Request, s.Answer, s.Action.Fate)
	case model.Look:
		return p.look(ctx, int(s.Action.Request.Payout))
	case model.Die:
		// Whoever dies with a call to the rail in hand is the proxy: the call never leaves it.
		if q := before.Executors[s.Action.Executor].Next; q.Op.Forwards() {
			p.lost = append(p.lost, p.takeCall(q))
		}
	}
	return nil
}

func (p *player) request(ctx context.Context, q model.Request, a model.Answer, fate model.Fate) error {
	if !q.Op.Forwards() {
		p.sent = append(p.sent, q)
	}
	p.met = append(p.met, event{q.Op, a.Code})
	return p.reach(ctx, q, a, fate)
}

func TestRandomSchedulesLeaveModelAndSystemInTheSameState(t *testing.T) {
	compareSchedules(t, *schedules, false, false)
}

func TestRandomSchedulesWithFencingOffDoToo(t *testing.T) {
	for _, off := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("payment off %v, rail off %v", off[0], off[1]), func(t *testing.T) {
			compareSchedules(t, (*schedules+2)/3, off[0], off[1])
		})
	}
}

// compareSchedules plays the schedules of n seeds, and shows a shortest one for the first differences.
func compareSchedules(t *testing.T, n int, paymentOff, railOff bool) {
	s := start(t)
	var met tally
	inParallel(t, n, func(ctx context.Context, i int) error {
		set, dice := draw(*firstSeed+uint64(i), paymentOff, railOff)
		p, err := s.player(ctx, set, dice)
		if err != nil {
			return err
		}
		moves, err := p.random(ctx)
		met.add(p.met)
		if err != nil {
			return fmt.Errorf("%v: after %d moves: %w\n%s", set, len(moves), err, s.shrink(ctx, set, moves))
		}
		return nil
	})
	t.Logf("%d schedules, %d requests: %s", n, met.sum(), met.String())
	for _, e := range expected(paymentOff, railOff) {
		if n >= enough && met.counts[e] == 0 && !t.Failed() {
			t.Errorf("no schedule met %v", e)
		}
	}
}

// shrink leaves moves out for as long as a difference remains, and tells the shortest schedule that it finds.
func (s *services) shrink(ctx context.Context, set setting, moves []move) string {
	shortest := "none of the shorter schedules differs"
	differs := func(moves []move) bool {
		p, err := s.player(ctx, set, nil)
		if err != nil {
			return false
		}
		if err := p.replay(ctx, moves); err != nil {
			shortest = fmt.Sprintf("the shortest schedule that differs:\n  %s\n%v", strings.Join(p.told, "\n  "), err)
			return true
		}
		return false
	}
	if !differs(moves) {
		return shortest
	}
	for again := true; again; {
		again = false
		for i := len(moves) - 1; i >= 0; i-- {
			without := append(append([]move{}, moves[:i]...), moves[i+1:]...)
			if differs(without) {
				moves, again = without, true
			}
		}
	}
	return shortest
}
