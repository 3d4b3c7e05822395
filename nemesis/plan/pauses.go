package plan

import (
	"math/rand/v2"
	"time"
)

// Times of the pauses.
const (
	maxPause   = 6 * time.Second        // a pause whose successor does not come ends by then
	minPause   = 2 * time.Second        // a lease and its take-over fit in; nothing is planned later than this before the end
	pauseEvery = 500 * time.Millisecond // steps planned per time of drive; those that find no time are not taken
)

// pauses are the steps of nemesis pause.
func pauses(p Plan) ([]Step, error) {
	if p.forLocks() {
		return lockPauses(p), nil
	}
	return holderPauses(p), nil
}

// holderPauses stops holders between their last check and their write, until the write is stale: every second one before it
// goes to the rail, the others before each of the three writes to payment-resource in turn.
func holderPauses(p Plan) []Step {
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
