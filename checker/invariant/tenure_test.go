package invariant

import (
	"slices"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// tenure is what is remembered for the next failover.
func (p *primary) tenure() *tenure {
	j := NewJudge(verdict.Settings{Workload: lockWorkload, Backend: "pg", Nemesis: "script"})
	for i := range p.events {
		j.Observe(&p.events[i])
	}
	return j.folds[slices.IndexFunc(j.folds, func(f Fold) bool { _, is := f.(*durable); return is })].(*durable).promotions.now
}

func (p *primary) mark() {
	p.record(history.Event{W: history.LockDB, Type: contract.Info, Proc: contract.LockDB, Op: history.OpWatermark, Epoch: p.epoch, Covers: p.clock})
}

// still is a heartbeat that leaves the session's row as it was.
func (p *primary) still(id string) {
	p.put(session(id, p.rows["lock_session "+id].New["expires_at"]))
}

// A commit may have effects and change no row that is followed.
func TestOfEffectsThatChangeNoRowTheLatestAreRemembered(t *testing.T) {
	p := standing()
	for range 2 * maxMoves {
		p.still("s")
	}
	if n := p.tenure(); len(n.deeds) > maxMoves+1 || len(n.unheard) > maxMoves+1 {
		t.Errorf("%d effects are remembered, %d of them unheard", len(n.deeds), len(n.unheard))
	}
	p.failover("failover")
	if got := p.durability(); got.Found != 0 || got.Danger[verdict.LossesUnknown] != 0 {
		t.Errorf("a standby that has everything: %d found, danger %v", got.Found, got.Danger)
	}
	p = standing()
	p.keep()
	p.take("m", 42)
	for range 2 * maxMoves {
		p.still("s")
	}
	p.failover("failover")
	if got := p.durability(); got.Found != 0 || got.Danger[verdict.LossesUnknown] != 1 {
		t.Errorf("a standby that lacks what is forgotten: %d found, danger %v", got.Found, got.Danger)
	}
}

// An answer that the log has passed by waits for no effect: that one was forgotten, or never was.
func TestAnAnswerWaitsForItsEffectNoLongerThanTheLogTakes(t *testing.T) {
	p := standing()
	r := p.send(history.Event{Op: contract.OpOpenSession, Proc: "executor-1", Session: "u"})
	column, res := p.until()
	p.put(session("u", column))
	for range maxMoves + 10 {
		p.beat("s")
	}
	r.answer = answer{status: 201, res: res}
	p.reply(r)
	p.mark()
	if n := p.tenure(); len(n.early) != 0 {
		t.Errorf("%d answers wait", len(n.early))
	}
	q := p.send(history.Event{Op: contract.OpAcquire, Proc: "executor-1", Key: "m"})
	q.Granted, q.answer = 42, answer{status: 200}
	p.reply(q)
	p.put(entry("m", 42, column))
	n := p.tenure()
	if d := n.promises[lockRow{"lock_entry", "m"}]; len(n.early) != 0 || d == nil {
		t.Errorf("%d answers wait, and of the one that came before its effect is known %v", len(n.early), d)
	}
}
