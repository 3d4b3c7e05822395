package nemesis

// Duplicate: a request that was answered arrives once more, byte for byte, as a call of its own that nobody waits for. Its
// client knows nothing of it; whatever it does, nobody has asked for twice.

import (
	"context"
	"time"

	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// repeat has the request of m sent once more, not before the step's delay has passed since it came, and tells whether that
// was seen: the copy was on its way to the server. A server that is not there to take it is no window.
func (f *messageFault) repeat(ctx context.Context, m Meeting, why string) (seen bool, err error) {
	var copied int64
	again := f.e.heard.listen(func(ev *history.Event) bool {
		if ev.DupOf != f.call || ev.Stage != history.Forwarded && ev.Stage != history.Answered {
			return false
		}
		if seen = ev.Stage == history.Forwarded; seen {
			copied = ev.Call
		}
		return true
	})
	defer again.close()
	answered := f.e.heard.listen(func(ev *history.Event) bool { return ev.DupOf == f.call && ev.Stage == history.Answered })
	defer answered.close()
	wait(ctx, time.Duration(f.step.Delay))
	m.Release()
	select {
	case <-again.heard:
	case <-time.After(healTimeout):
		again.close()
		select {
		case <-again.heard: // at the same instant
		default:
			f.log(PhaseFailed, "call %d was met, and was not seen to be repeated", f.call)
			return false, nil
		}
	}
	if !seen {
		f.log(PhaseFailed, "call %d was met, and nobody was there to take it a second time", f.call)
		return false, nil
	}
	f.log(PhaseInject, "the %s of %s once more, %s", plan.Request, f.step.Message.Op, why)
	f.log(PhaseSeen, "call %d repeats call %d", copied, f.call)
	select {
	case <-answered.heard:
		f.log(PhaseHealed, "")
	case <-time.After(f.e.copyWait): // whoever has it may be stopped, or kept waiting: the copy is on nobody's way
		f.log(PhaseFailed, "the copy was not answered within %s", f.e.copyWait)
	}
	return true, nil
}
