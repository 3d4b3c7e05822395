package invariant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// primary is lockdb with a standby, as the witnesses record it. What has happened when keep is called is what the standby has.
type primary struct {
	*world
	epoch int
	rows  map[string]history.Change // what is there, as inserts
	kept  map[string]history.Change
	tells bool // calls are answered
}

func newPrimary() *primary {
	return &primary{world: newWorld(), rows: map[string]history.Change{}, tells: true}
}

func (p *primary) keep() { p.kept = maps.Clone(p.rows) }

// put writes rows, nil for one that goes, in one commit.
func (p *primary) put(rows ...history.Change) {
	var changes []history.Change
	for _, c := range rows {
		id := c.Table + " " + c.New["lock_key"] + c.New["session_id"] + c.New["id"]
		if c.Table == "lock_entry" {
			id = c.Table + " " + c.New["lock_key"]
		}
		old, was := p.rows[id]
		switch {
		case c.Kind == history.Delete && was:
			delete(p.rows, id)
			changes = append(changes, history.Change{Table: c.Table, Kind: history.Delete, Old: old.New})
			continue
		case was:
			c.Kind, c.Old = history.Update, old.New
		}
		p.rows[id] = history.Change{Table: c.Table, Kind: history.Insert, New: c.New}
		changes = append(changes, c)
	}
	p.commitLock(p.epoch, changes...)
}

// call is sent, has its effect and is answered, unless nobody is told anything.
func (p *primary) call(e history.Event, status int, res string, rows ...history.Change) {
	e.Proc, e.Link = "executor-1", "executor-1→lock-server"
	granted := e.Granted
	e.Granted = 0
	r := p.send(e)
	p.put(rows...)
	if !p.tells {
		p.loseAnswer(r)
		return
	}
	r.Granted = granted
	r.answer = answer{status: status, res: res}
	p.reply(r)
}

func (p *primary) until() (column, res string) {
	at := time.Unix(1767225600, p.clock+worldLease).UTC()
	return stamp(p.clock + worldLease), fmt.Sprintf(`{"expiresAt":%q}`, at.Format(time.RFC3339Nano))
}

func session(id, expires string) history.Change {
	return history.Change{Table: "lock_session", Kind: history.Insert, New: row{"session_id": id, "expires_at": expires}}
}

func entry(key string, token int64, expires string) history.Change {
	return history.Change{Table: "lock_entry", Kind: history.Insert, New: row{"lock_key": key, "session_id": "s", "owner_id": "executor-1", "fencing_token": itoa(token), "acquired_at": "a", "expires_at": expires}}
}

func without(c history.Change) history.Change { c.Kind = history.Delete; return c }

func (p *primary) open(id string) {
	column, res := p.until()
	p.call(history.Event{Op: contract.OpOpenSession, Session: id}, 201, res, session(id, column))
}

func (p *primary) beat(id string) {
	column, res := p.until()
	p.call(history.Event{Op: contract.OpHeartbeat, Session: id}, 200, res, session(id, column))
}

func (p *primary) end(id string) {
	p.call(history.Event{Op: contract.OpCloseSession, Session: id}, 204, "", without(session(id, "")))
}

func (p *primary) take(key string, token int64) {
	column, res := p.until()
	p.call(history.Event{Op: contract.OpAcquire, Key: key, Granted: token}, 200, res, entry(key, token, column))
}

func (p *primary) renewal(key string, token int64) {
	column, res := p.until()
	p.call(history.Event{Op: contract.OpRenew, Key: key, Token: token, Granted: token}, 200, res, entry(key, token, column))
}

func (p *primary) giveBack(key string, token int64) {
	p.call(history.Event{Op: contract.OpRelease, Key: key, Token: token}, 204, "", without(entry(key, token, "")))
}

func (p *primary) revoke(key string, token int64) {
	p.call(history.Event{Op: contract.OpRevoke, Key: key}, 200, fmt.Sprintf(`{"revokedToken":%d,"newTokenFloor":%d}`, token, token+1), without(entry(key, token, "")),
		history.Change{Table: "lock_revocation", Kind: history.Insert, New: row{"id": itoa(token), "lock_key": key, "prev_token": itoa(token), "token_floor": itoa(token + 1)}})
}

// failover has the standby serve with what was kept, or with everything where nothing was.
func (p *primary) failover(op contract.Op) {
	if p.kept == nil {
		p.keep()
	}
	p.nemesis(op, "inject")
	p.epoch++
	p.rows, p.kept = p.kept, nil
	var rows []history.Change
	for _, id := range slices.Sorted(maps.Keys(p.rows)) {
		rows = append(rows, p.rows[id])
	}
	if len(rows) > 0 {
		p.commitLock(p.epoch, rows...)
		p.events[len(p.events)-1].Msg = snapshot
	}
	p.record(history.Event{W: history.LockDB, Type: contract.Info, Proc: contract.LockDB, Op: history.OpWatermark, Epoch: p.epoch, Covers: p.clock})
	p.nemesis(op, "seen")
}

func (p *primary) nemesis(op contract.Op, phase string) {
	p.record(history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: op, Phase: phase, Window: 1, Target: "lockdb"})
}

// durability is what DUR-01 says of it.
func (p *primary) durability() verdict.Invariant {
	j := NewJudge(verdict.Settings{Workload: lockWorkload, Backend: "pg", Nemesis: "kill,failover"})
	for i := range p.events {
		j.Observe(&p.events[i])
	}
	for _, inv := range j.Conclude(nil) {
		if inv.ID == "DUR-01" {
			return inv
		}
	}
	return verdict.Invariant{}
}

// standing is a primary with two sessions and two keys taken, all of it answered.
func standing() *primary {
	p := newPrimary()
	p.open("s")
	p.open("t")
	p.take("k", 40)
	p.take("l", 41)
	return p
}

func TestAStandbyThatEveryCommitWasToWaitForHasAllThatWasAnswered(t *testing.T) {
	const lacks = ", and the standby that was promoted in lockdb's place knows nothing of it, although every commit was to wait for it"
	for name, c := range map[string]struct {
		story func(*primary)
		lost  string // what the first violation says, "" where there is none
		found int64
		open  int64
	}{
		"it has everything":              {func(p *primary) { p.renewal("k", 40); p.giveBack("l", 41); p.revoke("k", 40); p.beat("s"); p.end("t") }, "", 0, 0},
		"it lacks a grant":               {func(p *primary) { p.keep(); p.take("m", 42) }, "executor-1 was answered token 42 for key m" + lacks, 1, 0},
		"it has an older grant":          {func(p *primary) { p.giveBack("k", 40); p.take("k", 42); p.keep(); p.giveBack("k", 42); p.take("k", 43) }, "executor-1 was answered 204 to its release of key k with token 42" + lacks, 2, 0},
		"it lacks a grant and its end":   {func(p *primary) { p.keep(); p.take("m", 42); p.beat("s"); p.giveBack("m", 42) }, "executor-1 was answered token 42 for key m" + lacks, 3, 0},
		"it lacks a renewal":             {func(p *primary) { p.keep(); p.renewal("k", 40) }, "executor-1 was answered 200 to its renew of key k with token 40" + lacks, 1, 0},
		"it lacks a release":             {func(p *primary) { p.keep(); p.giveBack("k", 40) }, "executor-1 was answered 204 to its release of key k with token 40" + lacks, 1, 0},
		"it lacks a revoke":              {func(p *primary) { p.keep(); p.revoke("k", 40) }, "executor-1 was answered 200 to its revoke of key k with token 0" + lacks, 1, 0},
		"it lacks a session":             {func(p *primary) { p.keep(); p.open("u") }, "executor-1 was answered 201 to its open_session of session u" + lacks, 1, 0},
		"it lacks a heartbeat":           {func(p *primary) { p.keep(); p.beat("s") }, "executor-1 was answered 200 to its heartbeat of session s" + lacks, 1, 0},
		"it lacks the end of a session":  {func(p *primary) { p.keep(); p.end("t") }, "executor-1 was answered 204 to its close_session of session t" + lacks, 1, 0},
		"it lacks what nobody was told":  {func(p *primary) { p.keep(); p.tells = false; p.renewal("k", 40); p.take("m", 42); p.giveBack("l", 41) }, "", 0, 0},
		"it has nothing at all":          {func(p *primary) { p.kept = map[string]history.Change{} }, "executor-1 was answered 201 to its open_session of session s" + lacks, 4, 0},
		"it lacks what came from before": {func(p *primary) { p.failover("failover"); p.beat("s"); p.keep(); delete(p.kept, "lock_entry k") }, "executor-1 was answered token 40 for key k" + lacks, 1, 0},
		"it lacks what two have handed down": {func(p *primary) {
			p.failover("failover")
			p.failover("failover")
			p.beat("t")
			p.keep()
			delete(p.kept, "lock_session s")
		}, "executor-1 was answered 201 to its open_session of session s" + lacks, 1, 0},
		"it lacks what ended in between": {func(p *primary) { p.failover("failover"); p.giveBack("k", 40); p.end("t") }, "", 0, 0},
		"a release may have ended the grant": {func(p *primary) {
			r := p.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "k", Token: 40})
			p.beat("s")
			p.keep()
			delete(p.kept, "lock_entry k")
			p.loseAnswer(r)
		}, "", 0, 1},
		"a release of another token cannot have": {func(p *primary) {
			r := p.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "k", Token: 39})
			p.beat("s")
			p.keep()
			delete(p.kept, "lock_entry k")
			p.loseAnswer(r)
		}, "executor-1 was answered token 40 for key k" + lacks, 1, 0},
		"one that was refused cannot have": {func(p *primary) {
			r := p.send(history.Event{Op: contract.OpRelease, Proc: "executor-1", Key: "k", Token: 40})
			r.answer = answer{status: 409, code: contract.LockLost}
			p.reply(r)
			p.beat("s")
			p.keep()
			delete(p.kept, "lock_entry k")
		}, "executor-1 was answered token 40 for key k" + lacks, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := standing()
			c.story(p)
			p.failover("failover")
			p.open("after")
			got := p.durability()
			if got.Found != c.found || got.Unresolved != c.open {
				t.Errorf("%d found and %d left open, want %d and %d: %s", got.Found, got.Unresolved, c.found, c.open, got.Reason)
			}
			if got.Found > 0 && (got.Reason != c.lost || len(got.Violations[0].Events) < 3) {
				t.Errorf("%d events prove it: %s", len(got.Violations[0].Events), got.Reason)
			}
			if got.Danger[verdict.AnswersUndone] != c.found {
				t.Errorf("danger %v", got.Danger)
			}
		})
	}
}

// What nobody waited for may be lost: how much it was, is told.
func TestWhatAnAsynchronousStandbyLacksIsCountedAndBreaksNothing(t *testing.T) {
	p := standing()
	p.keep()
	p.renewal("k", 40)
	p.giveBack("l", 41)
	p.take("m", 42)
	p.giveBack("m", 42) // given back or not, it was granted
	p.tells = false
	p.take("l", 43)
	p.tells = true
	p.failover("failover-async")
	p.take("m", 42)
	p.failover("failover-async")
	got := p.durability()
	want := map[string]int64{verdict.Failovers: 2, verdict.StandbysBehind: 1, "rows_set_back": 2, verdict.TokensLost: 1, verdict.AnswersUndone: 4}
	for counter, n := range want {
		if got.Danger[counter] != n {
			t.Errorf("%s is %d, want %d", counter, got.Danger[counter], n)
		}
	}
	if got.Found != 0 || got.Unresolved != 0 {
		t.Errorf("%d found, %d left open: %s", got.Found, got.Unresolved, got.Reason)
	}
}

// Nobody may ask for anything any more after a promotion.
func TestAPromotedServerIsComparedAlthoughNothingIsCommittedThere(t *testing.T) {
	p := standing()
	p.kept = map[string]history.Change{}
	p.failover("failover")
	if got := p.durability(); got.Found != 4 || !strings.Contains(got.Reason, "knows nothing of it") {
		t.Errorf("%d found: %s", got.Found, got.Reason)
	}
}

// Answers that wait for another witness are heard when the next epoch has begun.
func TestAnAnswerThatIsHeardLateCountsForTheServerThatGaveIt(t *testing.T) {
	p := standing()
	p.keep()
	p.renewal("k", 40)
	late := slices.IndexFunc(p.events, func(e history.Event) bool { return e.Op == contract.OpRenew && e.Stage == history.Answered })
	answers := slices.Clone(p.events[late:])
	p.events = p.events[:late]
	p.failover("failover")
	p.events = append(p.events, answers...)
	p.open("after")
	if got := p.durability(); got.Found != 1 || !strings.Contains(got.Reason, "its renew of key k with token 40, and the standby") {
		t.Errorf("%d found: %s", got.Found, got.Reason)
	}
}

func TestAServerThatBeganAsItsPrimaryNeverWasIsNoPass(t *testing.T) {
	p := standing()
	p.giveBack("k", 40)
	p.beat("s")
	p.keep()
	p.kept["lock_entry k"] = entry("k", 40, "some day")
	p.kept["lock_entry l"] = entry("l", 60, "some day") // a later grant than the one that was answered is not the loss of that
	p.failover("failover")
	if got := p.durability(); got.Status != verdict.Inconclusive || !strings.Contains(got.Reason, "never had together") {
		t.Errorf("%s: %s", got.Status, got.Reason)
	}
}

func TestWhereThePrimarysLogIsNotWholeItsStandbyIsNotAccused(t *testing.T) {
	p := standing()
	p.record(history.Event{W: history.LockDB, Type: contract.Info, Proc: contract.LockDB, Op: history.OpLostPlace, Msg: "gone"})
	p.keep()
	p.kept["lock_entry k"] = entry("k", 50, "some day")
	delete(p.kept, "lock_entry l")
	p.failover("failover")
	p.open("after")
	if got := p.durability(); got.Found != 0 || got.Status != verdict.Inconclusive {
		t.Errorf("%s with %d found: %s", got.Status, got.Found, got.Reason)
	}
}

// A standby may be behind by more than is remembered: by so much at least it is.
func TestOfWhatAStandbyLacksTheLatestIsRemembered(t *testing.T) {
	for op, status := range map[contract.Op]verdict.Status{"failover": verdict.Inconclusive, "failover-async": verdict.NotExercised} {
		p := standing()
		p.keep()
		for range maxMoves + 10 {
			p.beat("s")
		}
		p.failover(op)
		got := p.durability()
		if n := got.Danger[verdict.AnswersUndone]; got.Found != 0 || got.Status != status || op == "failover-async" && (n < maxMoves/2 || n > maxMoves) {
			t.Errorf("%s: %s with %d found and %d answers undone: %s", op, got.Status, got.Found, n, got.Reason)
		}
		want := map[contract.Op]string{"failover": verdict.LossesUnknown, "failover-async": verdict.LossesCut}[op]
		if got.Danger[want] != 1 {
			t.Errorf("%s: it does not tell that more was lost than is remembered: %v", op, got.Danger)
		}
	}
}

func TestARunWithoutFailoversCountsNone(t *testing.T) {
	for id, inv := range judged(bank().events, nil) {
		if _, there := inv.Danger[verdict.Failovers]; there {
			t.Errorf("%s counts failovers in a run without any", id)
		}
	}
}

// Sessions and keys come and go for as long as a run lasts.
func TestOfWhatIsOverNothingIsKeptForTheNextFailover(t *testing.T) {
	p := newPrimary()
	for i := range 3 * maxMoves / 4 {
		id := fmt.Sprint(i)
		p.open(id)
		p.take(id, int64(i+1))
		p.tells = i%2 == 0
		p.giveBack(id, int64(i+1))
		p.end(id)
		p.tells = true
	}
	n := p.tenure()
	if len(n.rows)+len(n.promises)+len(n.early) > 0 || len(n.moves) > maxMoves || len(n.deeds) > maxMoves || len(n.unheard) > maxMoves {
		t.Errorf("%d rows, %d promises, %d early answers, %d moves, %d deeds, %d of them unheard", len(n.rows), len(n.promises), len(n.early), len(n.moves), len(n.deeds), len(n.unheard))
	}
}
