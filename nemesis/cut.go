package nemesis

// Cut: over a cut link nothing arrives any more in the direction of the cut, and nobody is told; what was sent is lost, and
// what was held on the server for an answer stays as it is.

import (
	"context"
	"time"

	"fenceproof/nemesis/plan"
)

// cut is seen when a question over the link stays without an answer, and healed when one is answered.
type cut struct {
	hop       Hop
	direction plan.Direction
}

func (f cut) limits() (inject, heal time.Duration) { return injectTimeout, healsWithin }

func (f cut) inject(ctx context.Context) error {
	if err := f.hop.Cut(ctx, f.direction); err != nil {
		return err
	}
	return unanswered(ctx, f.hop, silence)
}

func (f cut) heal(ctx context.Context) error {
	if err := f.hop.Heal(ctx); err != nil {
		return err
	}
	return answers(ctx, f.hop, healTimeout)
}
