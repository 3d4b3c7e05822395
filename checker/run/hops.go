package run

import (
	"context"
	"errors"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/deploy/local"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"
)

// Hop finds a link of the stack.
func (t target) Hop(l contract.Link) (nemesis.Hop, error) {
	link, err := t.Link(l.String())
	if err != nil {
		return nil, err
	}
	return hop{link, t.seed}, nil
}

// hop is a link as the nemesis uses one.
type hop struct {
	link *local.Link
	seed uint64 // of the run; it decides the jitter
}

func (h hop) Cut(ctx context.Context, d plan.Direction) error  { return h.link.Cut(ctx, direction(d)) }
func (h hop) Hold(ctx context.Context, d plan.Direction) error { return h.link.Hold(ctx, direction(d)) }
func (h hop) Reset(ctx context.Context, d plan.Direction) error {
	return h.link.Reset(ctx, direction(d))
}
func (h hop) Heal(ctx context.Context) error { return h.link.Heal(ctx) }

func (h hop) Slow(ctx context.Context, d plan.Direction, n plan.Network) error {
	return h.link.Slow(ctx, direction(d), local.Slowness{
		Latency: time.Duration(n.Latency), Jitter: time.Duration(n.Jitter), KBPerSecond: n.KBPerSecond, Seed: h.seed,
	})
}

func (h hop) Ask(ctx context.Context) (nemesis.Question, error) {
	q, err := h.link.Ask(ctx)
	if err != nil {
		return nil, err
	}
	return question{q}, nil
}

// question is one as the nemesis asks it.
type question struct{ *local.Question }

func (q question) Answer(ctx context.Context) error {
	err := q.Question.Answer(ctx)
	if errors.Is(err, local.ErrSilent) {
		return nemesis.ErrSilent
	}
	return err
}

// direction is a half of a link as the stack names it.
func direction(d plan.Direction) local.Direction {
	switch d {
	case plan.OfRequests:
		return local.ToServer
	case plan.OfAnswers:
		return local.ToClient
	default:
		return local.Both
	}
}
