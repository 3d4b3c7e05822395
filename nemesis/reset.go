package nemesis

// Reset: a connection breaks when something is sent on it in the direction of the reset. A request that is hit does not
// arrive; of an answer that is hit the effect is there, and whoever waits for it is not told.

import (
	"context"
	"errors"
	"time"

	"fenceproof/nemesis/plan"
)

// reset is seen when the connection of a question over the link breaks, and healed when one is answered.
type reset struct {
	hop       Hop
	direction plan.Direction
}

func (f reset) limits() (inject, heal time.Duration) { return injectTimeout, healsWithin }

func (f reset) inject(ctx context.Context) error {
	if err := f.hop.Reset(ctx, f.direction); err != nil {
		return err
	}
	switch err := answer(ctx, f.hop, injectTimeout); {
	case err == nil:
		return errAnswered
	case errors.Is(err, ErrSilent):
		return errors.New("the connection of a question over the link does not break")
	}
	return nil
}

func (f reset) heal(ctx context.Context) error {
	if err := f.hop.Heal(ctx); err != nil {
		return err
	}
	return answers(ctx, f.hop, healTimeout)
}
