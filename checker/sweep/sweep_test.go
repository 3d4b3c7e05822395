package sweep

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// world writes the history of a sweep by hand.
type world struct {
	plan   plan.Plan
	events []history.Event
	calls  int64
}

// sweeping is a world whose plan has a step for each of the cells.
func sweeping(backend string, cells ...plan.Step) *world {
	return &world{plan: plan.Plan{Schema: plan.Schema, Workload: plan.PayoutWorkload, Backend: backend, Nemesis: plan.Script, Executors: 2, Accounts: 1, Rate: 1, Audits: 1,
		Drive: plan.Duration(10e9), Together: 1, Steps: cells}}
}

func step(f plan.Fault, link plan.Target, op contract.Op) plan.Step {
	s := plan.Step{Fault: f, Target: link, Message: &plan.Message{Side: plan.Request, Op: op}}
	switch f {
	case plan.Drop:
		s.Message.Side = plan.Answer
	case plan.Delay:
		s.For = plan.Duration(1e9)
	}
	return s
}

func (w *world) record(e history.Event) {
	e.I, e.T = int64(len(w.events)+1), int64(len(w.events)+1)
	w.events = append(w.events, e)
}

// call is one call with its answer; it gives the call's number.
func (w *world) call(e history.Event, status int, code contract.Code, res string) int64 {
	w.calls++
	e.W, e.Call, e.Type, e.Stage = history.Wiretap, w.calls, contract.Invoke, history.Received
	w.record(e)
	e.Stage = history.Forwarded
	w.record(e)
	e.Stage, e.Status, e.Code, e.Res = history.Answered, status, code, res
	e.Type, e.Outcome = contract.Completion(e.Op, status, code)
	w.record(e)
	return w.calls
}

// met says that a fault met a call.
func (w *world) met(f plan.Fault, call int64) {
	w.record(history.Event{W: history.Nemesis, Type: contract.Info, Op: contract.Op(f), Phase: "seen", Window: int(call), Call: call, Target: "l"})
}

func (w *world) commit(of history.Witness, changes ...history.Change) {
	w.record(history.Event{W: of, Type: contract.OK, Op: history.OpCommit, Changes: changes})
}

func (w *world) claimed(token int64) {
	row := func(token int64) map[string]string {
		return map[string]string{"payout_id": "p", "state": "CLAIMED", "claim_token": strconv.FormatInt(token, 10)}
	}
	w.commit(history.PayDB, history.Change{Table: "payout", Kind: history.Update, Old: row(token - 1), New: row(token)})
}

// read stores the history and reads it.
func (w *world) read(t *testing.T) Table {
	t.Helper()
	text, err := w.plan.Write()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	witnesses := []history.Witness{history.Wiretap, history.PayDB, history.LockDB, history.Journal, history.Nemesis}
	for _, witness := range witnesses {
		var b strings.Builder
		line := func(v any) {
			if err := json.NewEncoder(&b).Encode(v); err != nil {
				t.Fatal(err)
			}
		}
		line(map[string]any{"header": history.Header{Schema: 1, Witness: witness, Witnesses: witnesses, RunID: "r", Plan: text}})
		var trailer history.Trailer
		for i := range w.events {
			if w.events[i].W == witness {
				line(w.events[i])
				trailer.Events, trailer.Last = trailer.Events+1, w.events[i].I
			}
		}
		line(map[string]any{"trailer": trailer})
		if err := os.WriteFile(filepath.Join(dir, string(witness)+".ndjson"), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const claims, stub = plan.Target("executor-*→payment-resource"), plan.Target("rail-proxy→rail-stub")

func claim(token, dupOf int64) history.Event {
	return history.Event{Op: contract.OpClaim, Payout: "p", Token: token, DupOf: dupOf}
}

func TestACellSaysHowOftenItsRequestsWereCarriedOut(t *testing.T) {
	duplicate := step(plan.Duplicate, claims, contract.OpClaim)
	for name, c := range map[string]struct {
		story func(w *world)
		good  bool
		says  string
	}{
		"twice at the server, once in the log": {func(w *world) {
			n := w.call(claim(41, 0), 200, "", "{}")
			w.claimed(41)
			w.call(claim(41, n), 200, "", "{}")
			w.met(plan.Duplicate, n)
		}, true, "P2 claim|duplicated|1 of 1|2, must be 2|1, must be 1|2 × 200"},
		"twice in the log": {func(w *world) {
			n := w.call(claim(41, 0), 200, "", "{}")
			w.claimed(41)
			w.call(claim(41, n), 200, "", "{}")
			w.claimed(41)
			w.met(plan.Duplicate, n)
		}, false, "P2 claim|duplicated **wrong**|1 of 1|2, must be 2|2, must be 1|2 × 200"},
		"answered, and not in the log": {func(w *world) {
			n := w.call(claim(41, 0), 200, "", "{}")
			w.call(claim(41, n), 200, "", "{}")
			w.met(plan.Duplicate, n)
		}, false, "P2 claim|duplicated **wrong**|1 of 1|2, must be 2|0, must be 1|2 × 200"},
		"refused, and in the log all the same": {func(w *world) {
			n := w.call(claim(41, 0), 200, "", "{}")
			w.claimed(41)
			w.call(claim(41, n), 409, contract.FencedOut, "{}")
			w.met(plan.Duplicate, n)
		}, true, "P2 claim|duplicated|1 of 1|2, must be 2|1, must be 1|1 × 200, 1 × 409 FENCED_OUT"},
		"of an unknown answer the effect may be there, once": {func(w *world) {
			n := w.call(claim(41, 0), 503, contract.StoreUnavailable, "{}")
			w.call(claim(41, n), 503, contract.StoreUnavailable, "{}")
			w.claimed(41)
			w.met(plan.Duplicate, n)
		}, true, "P2 claim|duplicated|1 of 1|2, must be 2|1, must be 0 to 1|2 × 503 STORE_UNAVAILABLE"},
		"the copy never came": {func(w *world) {
			n := w.call(claim(41, 0), 200, "", "{}")
			w.claimed(41)
			w.met(plan.Duplicate, n)
		}, false, "P2 claim|duplicated **wrong**|1 of 1|1, must be 2|1, must be 1|1 × 200"},
		"nothing was met": {func(w *world) { w.call(claim(41, 0), 200, "", "{}") }, false, "P2 claim|duplicated **never met**|0 of 1|0, must be 0|0, must be 0|"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sweeping(plan.BackendPG, duplicate)
			c.story(w)
			got := w.read(t)
			if len(got.Cells) != 1 || strings.Join(got.Cells[0].columns(), "|") != c.says || got.Good() != c.good {
				t.Errorf("good %t:\n%s\nwant\n%s", got.Good(), strings.Join(got.Cells[0].columns(), "|"), c.says)
			}
		})
	}
}

// A request that one fault duplicates and another takes the answer of is two cells' at once, and each counts its own.
func TestTwoFaultsOfOneCallAreTwoCells(t *testing.T) {
	w := sweeping(plan.BackendPG, step(plan.Duplicate, claims, contract.OpClaim), step(plan.Drop, claims, contract.OpClaim))
	n := w.call(claim(41, 0), 200, "", "{}")
	w.claimed(41)
	w.call(claim(41, n), 200, "", "{}")
	w.met(plan.Drop, n)
	w.met(plan.Duplicate, n)
	got := w.read(t)
	if !got.Good() || got.Cells[0].Fault != plan.Drop || got.Cells[0].Requests != 1 || got.Cells[1].Requests != 2 {
		t.Errorf("%+v, %+v", *got.Cells[0], *got.Cells[1])
	}
}

func TestATransferIsCountedInTheJournal(t *testing.T) {
	for lines, good := range []bool{false, true, false} {
		w := sweeping(plan.BackendPG, step(plan.Drop, stub, contract.OpTransfer))
		n := w.call(history.Event{Op: contract.OpTransfer, Payout: "p"}, 200, "", "{}")
		for range lines {
			w.record(history.Event{W: history.Journal, Type: contract.Info, Op: history.OpMoney, Payout: "p"})
		}
		w.met(plan.Drop, n)
		if got := w.read(t); got.Good() != good {
			t.Errorf("%d lines: good is %t", lines, got.Good())
		}
	}
}

// The lock's operations may be carried out once more, each as a request of its own; a release may not.
func TestCopiesOfLockRequestsHaveEffectsOfTheirOwn(t *testing.T) {
	const locks = plan.Target("executor-*→lock-server")
	entry := func(token int) map[string]string {
		return map[string]string{"lock_key": "k", "fencing_token": strconv.Itoa(token)}
	}
	w := sweeping(plan.BackendPG, step(plan.Duplicate, locks, contract.OpAcquire), step(plan.Duplicate, locks, contract.OpRelease))
	n := w.call(history.Event{Op: contract.OpAcquire, Key: "k", Granted: 1}, 200, "", "{}")
	w.commit(history.LockDB, history.Change{Table: "lock_entry", Kind: history.Insert, New: entry(1)})
	w.call(history.Event{Op: contract.OpAcquire, Key: "k", Granted: 2, DupOf: n}, 200, "", "{}")
	w.commit(history.LockDB, history.Change{Table: "lock_entry", Kind: history.Update, Old: entry(1), New: entry(2)})
	w.met(plan.Duplicate, n)
	n = w.call(history.Event{Op: contract.OpRelease, Key: "k", Token: 2}, 204, "", "")
	w.commit(history.LockDB, history.Change{Table: "lock_entry", Kind: history.Delete, Old: entry(2)})
	w.call(history.Event{Op: contract.OpRelease, Key: "k", Token: 2, DupOf: n}, 409, contract.LockLost, "{}")
	w.met(plan.Duplicate, n)
	got := w.read(t)
	if a, r := got.Cells[0], got.Cells[1]; !got.Good() || a.Effects != 2 || a.Most != 2 || r.Effects != 1 || r.Most != 1 {
		t.Errorf("%+v, %+v", *a, *r)
	}
}

func TestWhatEtcdsLogDoesNotShowIsNotCounted(t *testing.T) {
	w := sweeping(plan.BackendEtcd, step(plan.Drop, "executor-*→lock-server", contract.OpRenew))
	w.met(plan.Drop, w.call(history.Event{Op: contract.OpRenew, Key: "k", Token: 1, Granted: 1}, 200, "", `{"expiresAt":"2026-01-01T00:00:00Z"}`))
	if got := w.read(t); !got.Good() || got.Cells[0].effects() != "not in this log" {
		t.Errorf("%+v", *got.Cells[0])
	}
}

func TestTheTableGoesBetweenTheLinesThatMarkItsPlace(t *testing.T) {
	w := sweeping(plan.BackendPG, step(plan.Duplicate, claims, contract.OpClaim))
	table := w.read(t)
	doc := "before\n" + begins("pg") + "old\n" + ends("pg") + "after\n"
	got, err := table.Into(doc)
	if err != nil || !strings.HasPrefix(got, "before\n"+begins("pg")) || !strings.HasSuffix(got, ends("pg")+"after\n") || strings.Contains(got, "old") || !strings.Contains(got, "| P2 claim | duplicated **never met** |") {
		t.Errorf("%v\n%s", err, got)
	}
	if again, err := table.Into(got); err != nil || again != got {
		t.Errorf("a second time it is\n%s\n%v", again, err)
	}
	if _, err := table.Into("no place"); err == nil {
		t.Error("a document without a place took it")
	}
}

func TestTheRowsOfAllRunsStandInTheOrderOfTheContract(t *testing.T) {
	var all Table
	for _, op := range []contract.Op{contract.OpTransfer, contract.OpClaim, contract.OpOpenSession} {
		var part Table
		for _, f := range []plan.Fault{plan.Delay, plan.Drop} {
			part.Cells = append(part.Cells, &Cell{Op: op, Fault: f})
		}
		all.Add(part)
	}
	var got []string
	for _, c := range all.Cells {
		got = append(got, fmt.Sprint(endpointOf(c.Op).row, " ", c.Fault))
	}
	if s := strings.Join(got, ", "); s != "L1 drop, L1 delay, P2 drop, P2 delay, S1 drop, S1 delay" {
		t.Errorf("they stand as %s", s)
	}
}
