package plan

import (
	"math/rand/v2"
	"time"

	"fenceproof/checker/contract"
)

// Flaky is the nemesis of links that one cannot rely on.
const Flaky = "flaky"

// Times of the resets.
const (
	resetEvery  = 700 * time.Millisecond // from one to the next
	resetJitter = 300 * time.Millisecond // so that they do not come in step with anything
)

// resetLong is how long a link resets: its new connections are hit as well.
var resetLong = span{100 * time.Millisecond, 400 * time.Millisecond}

// flakiness are the steps of nemesis flaky, of all its parts. Each draws from a stream of its own.
func flakiness(p Plan) ([]Step, error) {
	var steps []Step
	for _, part := range []func(Plan) []Step{resets, messages} {
		steps = append(steps, part(p)...)
	}
	return steps, nil
}

// resets are resets of single links, one after the other, of every kind: what is reset may be a request that has not
// arrived yet, or the answer to one that has had its effect.
func resets(p Plan) []Step {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7265736574)) // "reset"
	var kinds [][]Route
	at := map[string]int{}
	for _, l := range p.stackLinks() {
		kind := kindOf(l.From) + "→" + kindOf(l.To)
		if _, known := at[kind]; !known {
			at[kind] = len(kinds)
			kinds = append(kinds, nil)
		}
		kinds[at[kind]] = append(kinds[at[kind]], Route{From: l.From, To: l.To})
	}
	for _, routes := range kinds { // clients' links twice: there somebody waits who may have been answered
		if kindOf(routes[0].From) != string(routes[0].From) && !routes[0].From.IsEtcd() {
			kinds = append(kinds, routes)
		}
	}
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var steps []Step
	for i := 0; ; i++ {
		begin := cutFirst + time.Duration(i)*resetEvery + random(rng, 0, resetJitter)
		long := random(rng, resetLong.min, resetLong.max)
		if begin+long > time.Duration(p.Drive)-cutBreak {
			return steps
		}
		steps = append(steps, Step{Fault: Reset, Target: pick(rng, kinds[i%len(kinds)]...).Target(), At: Duration(begin), For: Duration(long),
			Network: &Network{Direction: pick(rng, OfRequests, OfAnswers, BothWays)}})
	}
}

// kindOf is what p has in common with others of its kind.
func kindOf(p contract.Process) string {
	for _, pattern := range []contract.Process{AnyExecutor, AnyLockClient, AnyMember} {
		if means(pattern, p) {
			return string(pattern)
		}
	}
	return string(p)
}
