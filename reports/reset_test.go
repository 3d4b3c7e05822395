package reports

import (
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// wentBack is a run in which the account's fence stood at 9 when the lock store was put back. It granted 7 and 9 again, then 10.
func wentBack() (events []history.Event, payout string) {
	const account, other = "dee9d383-e9f0-496c-b3b1-ce6aff1b30c8", "709da173-d6d8-4bf3-8576-68b63aafb94f"
	payout = "79830b1c-e3a3-4eb4-9bb7-9ad57ab4cb04"
	w := newWorld(1, false)
	grant := func(t int64, to contract.Process, of string, token int64) {
		w.call(t*ms, ms, request{from: to, to: contract.LockServer, op: contract.OpAcquire, key: keyPrefix + of, status: 200, granted: token})
	}
	claim := func(t int64, by contract.Process, token, highest int64) {
		r := request{from: by, to: contract.PaymentResource, op: contract.OpClaim, payout: payout, token: token, status: 200}
		if highest > 0 {
			r.status, r.code, r.highest = 409, contract.FencedOut, highest
		}
		w.call(t*ms, ms, r)
	}
	e := contract.Executor
	grant(100, e(1), account, 7)
	grant(200, e(2), other, 8)
	grant(300, e(2), account, 9)
	w.commit(400*ms, history.PayDB, history.Change{Table: "payout", Kind: history.Insert, New: map[string]string{"payout_id": payout, "account_id": account, "state": "PENDING"}})
	w.add(500*ms, history.Nemesis, history.Event{Op: "restore-unguarded", Window: 1, Phase: "seen", Target: "lock-store", Msg: "the store knows of tokens up to 6, and 9 had been answered"})
	w.commit(600*ms, history.LockDB).Epoch = 1
	grant(700, e(3), account, 7)
	claim(710, e(3), 7, 9)
	grant(800, e(4), account, 9)
	claim(810, e(4), 9, 9)
	grant(900, e(5), account, 10)
	claim(910, e(5), 10, 0)
	return w.finish(), payout
}

func storyOfRun(t *testing.T, events []history.Event, payout string) story {
	t.Helper()
	st := study(verdict.Run{}, inMemory(events), fullLimits)
	n := storyOf(st.data.Stories, payout)
	if st.problem != nil || n < 0 {
		t.Fatalf("there is no story of the payout (%v)", st.problem)
	}
	return st.data.Stories[n]
}

func TestAStoryTellsThatItsStoreWentBackAndWhatCameOfIt(t *testing.T) {
	events, payout := wentBack()
	s := storyOfRun(t, events, payout)
	const want = "The lock store was put back to an older state at 0.500 s: the store knows of tokens up to 6, and 9 had been answered. " +
		"2 writes were refused at the account row under tokens 7 to 9, which were granted after that: it had accepted 9 before. " +
		"Tokens 7 (to executor-1 at 0.101 s) and 9 (to executor-2 at 0.301 s) had been issued before. executor-5 worked under token 10. "
	if !strings.HasPrefix(s.Caption, want) || s.Kind != kindBehind {
		t.Errorf("%s: %s", s.Kind, s.Caption)
	}
	var said []string
	for _, step := range s.Steps {
		said = append(said, strings.Join(step.Text, ", "))
	}
	all := strings.Join(said, "; ")
	if !strings.HasPrefix(all, "payout inserted PENDING; lock store put back to an older state; acquire; issued again; claim; FENCED_OUT, highest 9") {
		t.Errorf("the steps are: %s", all)
	}
}

func TestATranscriptTellsItToo(t *testing.T) {
	events, payout := wentBack()
	dir := t.TempDir()
	rec, err := history.Create(dir, history.Header{RunID: "went-back"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		rec.Record(e.W, e)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	got := transcripts(t, dir) // nobody was hit: it chooses
	if len(got) != 1 || !strings.HasPrefix(got[0], "payout "+payout+"\n") {
		t.Fatalf("tells of %q", got)
	}
	for _, want := range []string{
		"[lock-store]       PUT BACK TO AN OLDER STATE: the store knows of tokens up to 6, and 9 had been answered\n",
		"→ granted, token 7, which executor-1 had been granted at ",
		"→ 409 FENCED_OUT: 7 is not greater than 9, which was accepted before the lock store went back\n",
		"→ 409 FENCED_OUT: 9 is not greater than 9, which was accepted before the lock store went back\n",
		"→ granted, token 10\n",
	} {
		if !strings.Contains(got[0], want) {
			t.Errorf("%q is not told:\n%s", want, got[0])
		}
	}
}
