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
