package nemesis

// Reorder: a request arrives after one that was sent later: it waits on its way until the next write over the same link, or
// about the same payout over any link, has been answered, and then goes on.

import (
	"context"
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// overtake keeps the request of m until another one has overtaken it, and tells whether one did. The window is opened then:
// a request that nothing overtook within the step's time was late, and in its order.
func (f *messageFault) overtake(ctx context.Context, m Meeting, why string) (seen bool, err error) {
	var later int64
	overtaken := f.e.heard.listen(func(ev *history.Event) bool {
		if !overtakes(f.step.Message.Behind, f.target.String(), f.trig, f.call, ev) {
			return false
		}
		later = ev.Call
		return true
	})
	defer overtaken.close()
	gone := f.e.heard.listen(f.left())
	defer gone.close()
	select {
	case <-overtaken.heard:
		seen = true
		f.log(PhaseInject, "the %s of %s, %s", plan.Request, f.step.Message.Op, why)
		f.log(PhaseSeen, "call %d has overtaken call %d", later, f.call)
		f.log(PhaseHeal, "it is let go")
	case <-time.After(time.Duration(f.step.For)):
		f.log(PhaseFailed, "nothing overtook call %d within %s", f.call, f.step.For)
	case <-ctx.Done():
		f.log(PhaseFailed, "the drive has ended, and nothing has overtaken call %d", f.call)
	}
	m.Release()
	if seen {
		return true, f.awaitEnd(gone, "it was not seen to go on")
	}
	select {
	case <-gone.heard:
		return false, nil
	case <-time.After(healTimeout):
		return false, fmt.Errorf("the message of call %d was released, and it was not seen to go on", f.call)
	}
}

// overtakes tells whether ev answers a write that came after the call: over the same link, or about the same payout over
// any.
func overtakes(by plan.Behind, link string, t trigger, call int64, ev *history.Event) bool {
	switch {
	case ev.W != history.Wiretap || ev.Stage != history.Answered || ev.Type == contract.Info && ev.Status == 0:
		return false
	case ev.Call <= call || ev.DupOf != 0 || ev.Op.Read():
		return false
	case by == plan.BehindPayout:
		return t.payout != "" && ev.Payout == t.payout
	}
	return ev.Link == link
}
