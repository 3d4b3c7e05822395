package nemesis

// Revoke: a revoked key is free at once, and every later token of it is at or above the floor that the revoke was answered.
// It fences no resource: the old holder writes until the next one does.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// Operators is what a Stack can do besides, where somebody may take a key from its holder.
type Operators interface {
	// Revoke ends the grant (key, token). ErrNotHeld says that it was over already.
	Revoke(ctx context.Context, key string, token int64) error
}

// ErrNotHeld says that the grant which was to be revoked had ended.
var ErrNotHeld = errors.New("the grant is over already")

// revoke carries out a step on a key. A grant that was given back before the operator came is no revoke: the step waits for
// another one. An operator who is not answered knows nothing, and waits as well.
func (e *Engine) revoke(ctx context.Context, s plan.Step) error {
	stack, ok := e.stack.(Operators)
	if !ok {
		return fmt.Errorf("%s: nobody in this stack may", s.Fault)
	}
	n := e.open(s, contract.Process(s.Target))
	done := false
	defer func() { e.close(s, contract.Process(s.Target), done) }()
	log := func(h hit, phase, format string, args ...any) {
		e.rec.Record(history.Nemesis, history.Event{Type: contract.Info, Proc: "nemesis", Op: contract.Op(s.Fault), Window: n, Phase: phase,
			Target: string(h.target), Key: h.trigger.key, Token: h.trigger.token, Msg: fmt.Sprintf(format, args...)})
	}
	why := errors.New("nothing was granted")
	for {
		h, heard := e.await(ctx, s, true)
		if !heard || !wait(ctx, time.Duration(s.Delay)) {
			log(hit{target: contract.Process(s.Target)}, PhaseFailed, "the drive has ended, and no grant was revoked; the last try: %v", why)
			return nil
		}
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), injectTimeout)
		why = stack.Revoke(c, h.trigger.key, h.trigger.token)
		cancel()
		if why == nil {
			done = true
			log(h, PhaseInject, "%s", reason(s, h.trigger))
			log(h, PhaseSeen, "the operator was answered")
			log(h, PhaseHealed, "the key is free")
			return nil
		}
	}
}
