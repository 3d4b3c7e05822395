package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Revoke has an operator take a key from its holder, at an instant: the step has no length.
const Revoke Fault = "revoke"

// Times of the revokes: from one to the next, and how soon after a grant. A payout is several writes long, and what is
// left of it when its key is taken is written under a token that the next holder shuts out.
const (
	revokeFirst = 500 * time.Millisecond
	revokeEvery = 600 * time.Millisecond
	revokeBreak = time.Second // from the last one to the end of the drive
)

var (
	amidPayout = span{10 * time.Millisecond, 150 * time.Millisecond}
	amidHold   = span{0, 30 * time.Millisecond}
)

// OnKey tells whether f is done to a key, and to no process or link.
func (f Fault) OnKey() bool { return f == Revoke }

// revokes are the steps of nemesis revoke.
func revokes(p Plan) ([]Step, error) {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7265766f6b65)) // one stream of its own: "revoke"
	amid := amidPayout
	if p.forLocks() {
		amid = amidHold
	}
	var steps []Step
	for i := 0; ; i++ {
		at := revokeFirst + time.Duration(i)*revokeEvery + random(rng, 0, revokeEvery/2)
		if at > time.Duration(p.Drive)-revokeBreak {
			return steps, nil
		}
		steps = append(steps, Step{Fault: Revoke, Target: Holder, At: Duration(at), On: AcquireOK, Delay: Duration(random(rng, amid.min, amid.max))})
	}
}

// validateRevoke refuses a revoke that is not about a grant that was just answered, or that would last.
func (s Step) validateRevoke() error {
	switch {
	case s.Fault != Revoke:
		return nil
	case s.Target != Holder || s.On != AcquireOK:
		return fmt.Errorf("%s is about a grant: it needs \"target\": %q and \"on\": %q", Revoke, Holder, AcquireOK)
	case s.For != 0 || s.Until != "":
		return errors.New("what is revoked stays so: leave \"for\" and \"until\" out")
	}
	return nil
}
