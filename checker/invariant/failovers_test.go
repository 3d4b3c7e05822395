package invariant

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestAPromotedStandbyIsComparedWithWhatItsPrimaryHadAndWithWhatWasAnswered(t *testing.T) {
	row := func(key, token, expires string) history.Change {
		return history.Change{Table: "lock_entry", Kind: history.Insert, New: map[string]string{"lock_key": key, "fencing_token": token, "expires_at": expires}}
	}
	gone := func(key string) history.Change {
		return history.Change{Table: "lock_entry", Kind: history.Delete, Old: map[string]string{"lock_key": key}}
	}
	commit := func(epoch int, msg string, changes ...history.Change) history.Event {
		return history.Event{W: history.LockDB, Type: contract.OK, Op: history.OpCommit, Epoch: epoch, Msg: msg, Changes: changes}
	}
	answer := func(token int64) history.Event {
		return history.Event{W: history.Wiretap, Type: contract.OK, Op: contract.OpAcquire, Stage: history.Answered, Granted: token}
	}
	seen := history.Event{W: history.Nemesis, Op: "failover-async", Phase: "seen", Target: "lockdb"}
	before := []history.Event{
		commit(0, "", row("same", "1", "t")), commit(0, "", row("renewed", "2", "later")), commit(0, "", row("lost", "40", "t")),
		commit(0, "", row("released", "4", "t")), commit(0, "", gone("released")), answer(40), answer(3), seen,
	}
	for name, c := range map[string]struct {
		after      []history.Event
		lost, back int64
	}{
		"it lacks what was done last": {[]history.Event{
			commit(1, snapshot, row("same", "1", "t"), row("renewed", "2", "t"), row("released", "4", "t")),
			commit(1, "", row("same", "34", "t")), commit(1, "", row("lost", "35", "t"))}, 7, 3},
		"its sequence was ahead of what it lacks": {[]history.Event{
			commit(1, snapshot, row("same", "1", "t"), row("renewed", "2", "t")), commit(1, "", row("same", "66", "t"))}, 0, 2},
		"it has everything": {[]history.Event{
			commit(1, snapshot, row("same", "1", "t"), row("renewed", "2", "later"), row("lost", "40", "t")), commit(1, "", row("same", "41", "t"))}, 0, 0},
		"it never granted anything": {[]history.Event{commit(1, snapshot, row("same", "1", "t"), row("renewed", "2", "later"), row("lost", "40", "t"))}, 0, 0},
	} {
		b := newBook()
		for _, e := range append(append([]history.Event{}, before...), c.after...) {
			b.enter(&e)
		}
		if got := b.failovers.counts(); got["failovers"] != 1 || got["tokens_lost"] != c.lost || got["rows_set_back"] != c.back {
			t.Errorf("%s: %v, want %d tokens and %d rows", name, got, c.lost, c.back)
		}
	}
	for id, inv := range judged(bank().events, nil) {
		if _, there := inv.Danger["failovers"]; there {
			t.Errorf("%s counts failovers in a run without any", id)
		}
	}
}

func TestAnAnsweredGrantThatAStandbyLacksIsLostOnlyWhereEveryCommitWasToWaitForIt(t *testing.T) {
	row := func(token string) history.Change {
		return history.Change{Table: "lock_entry", Kind: history.Insert, New: map[string]string{"lock_key": "k", "fencing_token": token, "expires_at": "t"}}
	}
	gone := history.Change{Table: "lock_entry", Kind: history.Delete, Old: map[string]string{"lock_key": "k"}}
	commit := func(epoch int, msg string, changes ...history.Change) history.Event {
		return history.Event{W: history.LockDB, Type: contract.OK, Proc: "lockdb", Op: history.OpCommit, Epoch: epoch, Msg: msg, Changes: changes}
	}
	answer := func(call, token int64) []history.Event {
		of := func(typ contract.Type, stage history.Stage) history.Event {
			return history.Event{W: history.Wiretap, Type: typ, Proc: "executor-1", Op: contract.OpAcquire, Stage: stage, Call: call, Key: "k", Link: "executor-1→lock-server"}
		}
		e := of(contract.OK, history.Answered)
		e.Granted, e.Status = token, 200
		return []history.Event{of(contract.Invoke, history.Received), of(contract.Invoke, history.Forwarded), e}
	}
	failover := func(op contract.Op) history.Event {
		return history.Event{W: history.Nemesis, Op: op, Phase: "inject", Target: "lockdb"}
	}
	start := append(append([]history.Event{commit(0, "", row("1"))}, answer(1, 1)...), commit(0, "", gone), commit(0, "", row("2")))
	answered := append(append([]history.Event{}, start...), answer(2, 2)...)
	for name, c := range map[string]struct {
		before   []history.Event
		op       contract.Op
		snapshot []history.Event
		lost     int64
	}{
		"it has an older grant":                       {answered, "failover", []history.Event{commit(1, snapshot, row("1"))}, 1},
		"it has none":                                 {answered, "failover", []history.Event{commit(1, snapshot, history.Change{Table: "lock_session", Kind: history.Insert})}, 1},
		"it has nothing at all":                       {answered, "failover", []history.Event{commit(1, "", history.Change{Table: "lock_session", Kind: history.Insert})}, 1},
		"it has the grant":                            {answered, "failover", []history.Event{commit(1, snapshot, row("2"))}, 0},
		"it has a later one":                          {answered, "failover", []history.Event{commit(1, snapshot, row("3"))}, 0},
		"nobody had been told":                        {start, "failover", []history.Event{commit(1, snapshot, row("1"))}, 0},
		"it was given back":                           {append(append([]history.Event{}, answered...), commit(0, "", gone)), "failover", []history.Event{commit(1, "", row("9"))}, 0},
		"nobody was to wait":                          {answered, "failover-async", []history.Event{commit(1, snapshot, row("1"))}, 0},
		"it was told of before an epoch that is over": {append(append([]history.Event{}, answered...), commit(1, snapshot, row("2")), commit(1, "", gone)), "failover", []history.Event{commit(2, snapshot, history.Change{Table: "lock_session", Kind: history.Insert})}, 0},
	} {
		var events []history.Event
		for _, e := range append(append(append([]history.Event{}, c.before...), failover(c.op)), c.snapshot...) {
			e.I = int64(len(events) + 1)
			e.T = e.I * 1000
			events = append(events, e)
		}
		b, found := newBook(), 0
		for i := range events {
			b.enter(&events[i])
			if events[i].W == history.LockDB {
				found += len(b.failovers.forgot)
			}
			b.leave(&events[i])
		}
		if int64(found) != c.lost {
			t.Errorf("%s: %d lost, want %d", name, found, c.lost)
		}
	}
}

func TestAGrantThatASynchronousStandbyLostBreaksDurability(t *testing.T) {
	tell(t, []wrong{{"a promoted standby does not know of it", func(w *world) {
		w.acquire("executor-1", "alice")
		w.record(history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: "failover", Phase: "inject", Window: 1, Target: "lockdb"})
		w.record(history.Event{W: history.LockDB, Type: contract.OK, Proc: "lockdb", Op: history.OpCommit, Epoch: 1, Msg: snapshot, LSN: "0/10",
			Changes: []history.Change{{Table: "schema", Kind: history.Insert, New: map[string]string{"version": "6"}}}})
	}, "DUR-01", map[string]string{"DUR-01": "executor-1 was answered token 44 for key payout:alice, and the standby that was promoted in lockdb's place knows nothing of it"}}})
}
