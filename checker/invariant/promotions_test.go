package invariant

import (
	"fmt"
	"slices"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// What a store that was put back lacks no standby has lost.
func TestOnlyTheLatestFaultIsTheCauseOfAnEpoch(t *testing.T) {
	for name, begin := range map[string]func(*primary){
		"a failover failed before the restore": func(p *primary) {
			p.nemesis("failover", "inject")
			p.nemesis("failover", "failed")
			p.failover("restore")
		},
		"a failover came before, and its epoch as well": func(p *primary) {
			rows := p.kept
			p.keep()
			p.failover("failover")
			p.kept = rows
			p.failover("restore")
		},
		"nothing is known to have begun the epoch behind that of a failover": func(p *primary) {
			rows := p.kept
			p.keep()
			p.failover("failover")
			p.kept = rows
			n := len(p.events)
			p.failover("failover")
			p.events = slices.DeleteFunc(p.events, func(e history.Event) bool { return e.I > int64(n) && e.W == history.Nemesis })
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := standing()
			p.keep()
			p.take("m", 42)
			begin(p)
			p.open("after")
			if got := p.durability(); got.Found != 0 || got.Danger[verdict.AnswersUndone] != 0 {
				t.Errorf("%d found, and %d answers undone: %s", got.Found, got.Danger[verdict.AnswersUndone], got.Reason)
			}
		})
	}
	p := standing()
	p.keep()
	p.take("m", 42)
	p.nemesis("restore", "inject")
	p.nemesis("restore", "failed")
	p.failover("failover")
	if got := p.durability(); got.Found != 1 {
		t.Errorf("behind a restore that failed: %d found, want 1: %s", got.Found, got.Reason)
	}
}

// The promoted server answers what was asked of the one before, and nobody knows which of them has carried it out.
func TestACallThatIsAnsweredInTheNextEpochMayHaveEndedAGrantInTheOneBefore(t *testing.T) {
	for name, status := range map[string]int{"it is carried out": 204, "it finds nothing": 409} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", before the next epoch's watermark ", early), func(t *testing.T) {
				p := standing()
				r := p.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "k", Token: 40})
				p.beat("s")
				p.keep()
				delete(p.kept, "lock_entry k")
				p.failover("failover")
				if r.answer = (answer{status: status}); status == 409 {
					r.answer.code = contract.LockLost
				}
				n := len(p.events)
				p.reply(r)
				if early { // behind the snapshot
					mark := slices.IndexFunc(p.events, func(e history.Event) bool { return e.Epoch > 0 && e.Op == history.OpWatermark })
					answers := slices.Clone(p.events[n:])
					for i := range answers {
						answers[i].T = p.events[mark].T
					}
					p.events = slices.Insert(p.events[:n], mark, answers...)
				}
				p.open("after")
				if got := p.durability(); got.Found != 0 || got.Danger[verdict.AnswersExcused] != 1 {
					t.Errorf("%d found, want 0, and %d answers excused, want 1: %s", got.Found, got.Danger[verdict.AnswersExcused], got.Reason)
				}
			})
		}
	}
}
