package nemesis

// Slow: over a slow link everything arrives, in its order and late: maybe after the patience of whoever sent it, or after
// its lease.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/nemesis/plan"
)

// slowed is seen when a question over the link is not answered within the least time that the link takes now, and healed
// when one is. Where none is, although all are answered, the machine may be as slow as the link was.
type slowed struct {
	hop       Hop
	direction plan.Direction
	how       plan.Network
}

// least is how long a question and its answer take at least.
func (f slowed) least() time.Duration {
	d := time.Duration(f.how.Latency - f.how.Jitter)
	if f.direction == plan.BothWays {
		d *= 2
	}
	return min(d, silence)
}

func (f slowed) limits() (inject, heal time.Duration) { return injectTimeout, healsWithin }

func (f slowed) inject(ctx context.Context) error {
	if err := f.hop.Slow(ctx, f.direction, f.how); err != nil {
		return err
	}
	err := unanswered(ctx, f.hop, f.least())
	if a, ok := errors.AsType[answeredAfter](err); ok && a.after >= f.least() {
		return nil // it came as late as it should; on a busy machine the wait for it ends no sooner
	}
	return err
}

func (f slowed) heal(ctx context.Context) error {
	if err := f.hop.Heal(ctx); err != nil {
		return err
	}
	if err := answers(ctx, f.hop, healTimeout); err != nil {
		return err
	}
	if err := within(ctx, healTimeout, func(ctx context.Context) error { return answers(ctx, f.hop, f.least()) }); err != nil {
		return fmt.Errorf("%w: the link works, and nothing was answered within %s", errUnproven, f.least())
	}
	return nil
}
