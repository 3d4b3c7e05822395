package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Names lists the nemeses that Generate knows.
func Names() []string { return []string{"none", string(Pause)} }

// Generate fills in the steps of p for its nemesis, from its seed and nothing else.
func Generate(p Plan) (Plan, error) {
	p.Schema = Schema
	if err := errors.Join(p.validateLoad()...); err != nil {
		return Plan{}, err
	}
	switch p.Nemesis {
	case "none":
	case string(Pause):
		n, noun := p.holders()
		if p.Together = min(2, n-1); p.Together < 1 {
			return Plan{}, fmt.Errorf("nemesis %s with %d of the %s: nobody would be left to take over; use at least 2", p.Nemesis, n, noun)
		}
		if p.Steps = pauses(p); p.forLocks() {
			p.Steps = lockPauses(p)
		}
	default:
		return Plan{}, known("nemesis", p.Nemesis, Names())
	}
	return p, p.Validate()
}

// Times of the pauses.
const (
	maxPause   = 6 * time.Second        // a pause whose successor does not come ends by then
	minPause   = 2 * time.Second        // a lease and its take-over fit in; nothing is planned later than this before the end
	pauseEvery = 500 * time.Millisecond // steps planned per time of drive; those that find no time are not taken
)

// pauses stops holders between their last check and their write, until the write is stale: every second one before it
// goes to the rail, the others before each of the three writes to payment-resource in turn.
func pauses(p Plan) []Step {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7061757365)) // one stream of its own: "pause"
	drive := time.Duration(p.Drive)
	atRow := []Event{ClaimOK, SubmitOK, OutcomeOK}
	first := rng.IntN(len(atRow))
	var steps []Step
	for i := 0; ; i++ {
		at := time.Duration(i)*pauseEvery + time.Duration(rng.Int64N(int64(pauseEvery/2))).Round(time.Millisecond)
		if at > max(0, drive-minPause) {
			return steps
		}
		on := SubmittedOK
		if i%2 == 1 {
			on = atRow[(first+i/2)%len(atRow)]
		}
		steps = append(steps, Step{
			Fault: Pause, Target: Holder, At: Duration(at), On: on, Delay: p.Prepare / 2,
			Until: NextFence(on), For: Duration(min(maxPause, drive-at)),
		})
	}
}
