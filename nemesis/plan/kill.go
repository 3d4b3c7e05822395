package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fenceproof/checker/contract"
)

// Kill ends a process with SIGKILL, a database with all of its processes at once, and starts it again on the same ports
// and data. Its step's time is how long it is down before that.
const Kill Fault = "kill"

// EtcdLeader is whichever member of etcd leads when the step begins.
const EtcdLeader Target = "etcd-leader"

// PostForwarded triggers a step when a post is about to reach payment-resource: what the step hits soon after may be in the
// middle of the post's transaction.
const PostForwarded Event = "post.forwarded"

// Times of the kills.
const (
	killFirst  = 1500 * time.Millisecond // work is under way by then
	killEvery  = 2 * time.Second         // a start after a crash fits in
	killOften  = time.Second             // how often what serves is killed in a short drive
	killsServe = 8                       // so many kills of what serves a drive has, where it is long enough for them
	killJitter = 500 * time.Millisecond  // so that they do not come in step with anything
	killBreak  = 2 * time.Second         // from the last one to the end of the drive
	holderKill = time.Second             // when the first holder is killed
)

// How long what was killed stays down, and how soon after its event a step kills.
var (
	serviceDown = span{100 * time.Millisecond, 500 * time.Millisecond}
	holderDown  = span{200 * time.Millisecond, 1200 * time.Millisecond}
	inAPost     = span{0, 3 * time.Millisecond}
	inHand      = span{0, 20 * time.Millisecond}
)

// kills are the steps of nemesis kill: a service, a database or a member every killEvery, in short drives more often, and
// holders beside them.
func kills(p Plan) ([]Step, error) {
	rng := rand.New(rand.NewPCG(p.Seed, 0x6b696c6c)) // one stream of its own: "kill"
	return append(p.serviceKills(rng), p.holderKills(rng)...), nil
}

// atOnce is how many faults that wait for an event may be active at once. What is killed may be long in coming back, and
// must not keep others from being killed at their moment.
func (p Plan) atOnce() int {
	if slices.Contains(p.Nemeses(), string(Kill)) {
		return 4
	}
	return 2
}

// serveEvery is how often what serves is killed. Each of the moments that such a kill is meant for may be missed, by a restart
// that takes long or an event that comes late: a short drive has several of each all the same.
func (p Plan) serveEvery() time.Duration {
	return min(killEvery, max(killOften, (time.Duration(p.Drive)-killBreak)/killsServe))
}

// serviceKills kills what serves, in turn: right after a grant was answered, where there are payouts in the middle of a
// post, and at random; in a short drive every other one of the latter is in a post as well.
func (p Plan) serviceKills(rng *rand.Rand) []Step {
	afterGrant, inPost, turn := p.lockKeepers(), []Target{Target(contract.PayDB), Target(contract.PaymentResource)}, p.killTurn(rng)
	every := p.serveEvery()
	first, short := min(killFirst, every), every < killEvery
	var steps []Step
	grants, posts, others := 0, 0, 0
	for i := 0; ; i++ {
		at := first + time.Duration(i)*every + random(rng, 0, killJitter)
		s := Step{Fault: Kill, At: Duration(at), For: Duration(random(rng, serviceDown.min, serviceDown.max))}
		switch place := i % 4; {
		case p.forLocks() && i%2 == 0, !p.forLocks() && place == 0:
			s.On, s.Target = AcquireOK, afterGrant[grants%len(afterGrant)]
			grants++
		case !p.forLocks() && (place == 1 || place == 3 && short):
			s.On, s.Target, s.Delay = PostForwarded, inPost[posts%len(inPost)], Duration(random(rng, inAPost.min, inAPost.max))
			posts++
		default:
			s.Target = turn[others%len(turn)]
			others++
		}
		if at+time.Duration(s.For) > time.Duration(p.Drive)-killBreak {
			return steps
		}
		steps = append(steps, s)
	}
}

// lockKeepers are those that must not lose a grant: what keeps the locks, and the server before it.
func (p Plan) lockKeepers() []Target {
	switch {
	case p.Backend == BackendEtcd && p.EtcdMembers > 1:
		return []Target{EtcdLeader, Target(contract.LockServer)}
	default:
		return []Target{Target(p.lockBackend()[0]), Target(contract.LockServer)}
	}
}

// killTurn is the order of the kills at random. What no event kills comes first, so that a short drive reaches it, too.
func (p Plan) killTurn(rng *rand.Rand) []Target {
	var alone, others []Target
	for _, t := range p.services() {
		switch contract.Process(t) {
		case contract.RailProxy, contract.RailStub, contract.Reconciler:
			alone = append(alone, t)
		default:
			others = append(others, t)
		}
	}
	for _, group := range [][]Target{alone, others} {
		rng.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	}
	return append(alone, others...)
}

// holderKills kills executors, or lock clients, with a key in their hands: after each of the events in turn.
func (p Plan) holderKills(rng *rand.Rand) []Step {
	on := []Event{AcquireOK, ClaimOK, SubmittedOK, SubmitOK, OutcomeOK}
	if p.forLocks() {
		on = on[:1]
	}
	first := rng.IntN(len(on))
	var steps []Step
	for i := 0; ; i++ {
		at := holderKill + time.Duration(i)*killEvery + random(rng, 0, killJitter)
		down := random(rng, holderDown.min, holderDown.max)
		if at+down > time.Duration(p.Drive)-killBreak {
			return steps
		}
		steps = append(steps, Step{Fault: Kill, Target: Holder, At: Duration(at), On: on[(first+i)%len(on)],
			Delay: Duration(random(rng, inHand.min, inHand.max)), For: Duration(down)})
	}
}

// beforeWrite tells whether s has to fall between an executor's last check and its next write.
func (s Step) beforeWrite() bool {
	if s.Fault != Pause || !s.Target.holds() {
		return false
	}
	return s.On == OutcomeOK || s.On == ClaimOK || s.On == SubmittedOK || s.On == SubmitOK
}

// validateEnd refuses an end that the trigger of a payout plan cannot have: a grant is about a key, all else is about a
// payout.
func (s Step) validateEnd(p Plan) error {
	switch aboutKey := s.On == AcquireOK && !s.Fault.OnMessage(); {
	case p.forLocks(), s.Until == "", aboutKey == (s.Until == SuccessorGranted):
		return nil
	case s.Until == SuccessorGranted:
		return fmt.Errorf("%s ends steps that begin on %s only: nothing else is about a key", SuccessorGranted, AcquireOK)
	}
	return fmt.Errorf("a step that begins on %s is about a key, and %s is about a payout: it may end with %s", AcquireOK, s.Until, SuccessorGranted)
}
