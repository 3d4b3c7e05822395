package synthetic

import (
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// pauses stops holders between their last check and their write, until a successor has written where their next write
// goes to: at most two at a time.
type pauses struct {
	w      *world
	next   int64 // when the next one may begin
	on     contract.Op
	active int
	window int
}

// pauseOps are the answers after which a holder is stopped: every second time at submitted.
var pauseOps = []contract.Op{contract.OpSubmitted, contract.OpClaim, contract.OpSubmitted, contract.OpSubmit, contract.OpSubmitted, contract.OpOutcome}

const (
	maxStopped = 2
	maxPause   = 6 * time.Second
	pauseGap   = 700 * time.Millisecond // the least time between the beginnings of two
)

// watch sees an answer that has reached its client, and may decide to stop it.
func (s *pauses) watch(x *client, c *call, p *payout) {
	w := s.w
	if !w.driving || p.account.plotted || x.proc.stopped || w.now < s.next || s.active == maxStopped || c.Op != s.on || !c.ok() {
		return
	}
	s.active++
	s.on = pauseOps[s.window%len(pauseOps)]
	s.next = w.now + w.span(pauseGap, 3*pauseGap)
	w.spawn(nil, func(t *task) {
		defer func() { s.active-- }()
		t.sleep(prepare / 2)
		if x.proc.stopped {
			return
		}
		heal := s.begin(t, x.proc, p, c.Token, fmt.Sprintf("25ms after %s.ok for payout %s under token %d", c.Op, p.id, c.Token))
		// Now and then it comes back just in time to submit before its successor does.
		atRail := c.Op == contract.OpSubmitted && !w.chance(300)
		until := w.now + int64(maxPause)
		for w.now < until && !(atRail && p.account.mark > c.Token || !atRail && p.account.fence >= c.Token) {
			t.sleep(w.between(10*time.Millisecond, 30*time.Millisecond))
		}
		t.sleep(w.between(0, 100*time.Millisecond)) // its answer is there by then, mostly
		heal(t, "successor has written")
	})
}

// begin stops a process and gives the function that lets it go on.
func (s *pauses) begin(t *task, of *process, p *payout, token int64, why string) (heal func(*task, string)) {
	w := s.w
	s.window++
	w.count.Pauses++
	window := s.window
	mark := func(phase, msg string) {
		w.tell(history.Nemesis, history.Event{Type: contract.Info, Proc: "nemesis", Op: "pause", Payout: p.id, Token: token, Window: window,
			Phase: phase, Target: string(of.name), Msg: msg})
	}
	mark("inject", why)
	w.stop(of)
	t.sleep(w.between(time.Millisecond, 15*time.Millisecond))
	mark("seen", "")
	return func(t *task, why string) {
		mark("heal", why)
		t.sleep(w.between(time.Millisecond, 10*time.Millisecond))
		w.resume(of)
		t.sleep(w.between(time.Millisecond, 40*time.Millisecond))
		mark("healed", "")
	}
}
