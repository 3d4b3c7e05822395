package nemesis

// Hold: what is sent over a held link does not arrive until the link heals, and then it does, in its order, whether or not
// whoever sent it has given it up or has lost its lease: the zombie write.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/nemesis/plan"
)

// hold is seen when a question over the link stays without an answer. It is healed when that very question is answered: so
// what was held has been delivered.
type hold struct {
	hop       Hop
	direction plan.Direction
	question  Question
}

func (f *hold) limits() (inject, heal time.Duration) { return injectTimeout, healsWithin }

func (f *hold) inject(ctx context.Context) (err error) {
	if err = f.hop.Hold(ctx, f.direction); err != nil {
		return err
	}
	f.question, err = silent(ctx, f.hop, silence)
	return err
}

func (f *hold) heal(ctx context.Context) error {
	if f.question != nil {
		defer f.question.Close()
	}
	if err := f.hop.Heal(ctx); err != nil {
		return err
	}
	if f.question == nil {
		return answers(ctx, f.hop, healTimeout)
	}
	switch err := f.question.Answer(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, ErrSilent):
		return fmt.Errorf("a question that was held is still not answered: %w", err)
	}
	// Its connection ended: whoever was to answer it was killed meanwhile. What was held for him is lost with him.
	return answers(ctx, f.hop, healTimeout)
}
