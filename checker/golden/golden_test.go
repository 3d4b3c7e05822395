package golden_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fenceproof/checker/golden"
	"fenceproof/checker/history"
	"fenceproof/checker/linear"
	"fenceproof/checker/verdict"
)

func TestMain(m *testing.M) {
	linear.RunIfAsked()
	os.Exit(m.Run())
}

const stored = "testdata"

func TestEveryGoldenHistoryIsJudgedAsEver(t *testing.T) {
	for _, g := range golden.All() {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(stored, g.Name)
			want, err := os.ReadFile(filepath.Join(dir, verdict.FileName))
			if err != nil {
				t.Fatal(err)
			}
			got, err := golden.Judge(dir)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the verdict is another now; if that is meant, store it with: go run ./checker/golden/regenerate -verdicts -replace %s\n%s", g.Name, firstDifference(want, got))
			}
			var v verdict.Run
			if err := json.Unmarshal(want, &v); err != nil {
				t.Fatal(err)
			}
			var violated []string
			for _, inv := range v.Invariants {
				if inv.Status == verdict.Violated {
					violated = append(violated, inv.ID)
				}
			}
			if !slices.Equal(violated, g.Violated) {
				t.Errorf("%s: violated is %v, and should be %v", g.Shows, violated, g.Violated)
			}
		})
	}
}

// firstDifference is the first line of each that differs.
func firstDifference(want, got []byte) string {
	a, b := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			return "was: " + string(a[i]) + "\nis:  " + string(b[i])
		}
	}
	return "one is longer than the other"
}

// The overall verdicts of those in which nothing is violated.
func TestWhatIsMissingIsNeverAPass(t *testing.T) {
	for name, want := range map[string]verdict.Status{
		"healthy-payout": verdict.Pass, "healthy-payout-etcd": verdict.Pass, "healthy-lock": verdict.Pass, "healthy-lock-etcd": verdict.Pass, "two-epochs": verdict.Pass,
		"torn-tail": verdict.Inconclusive, "missing-witness": verdict.Inconclusive, "removed-event": verdict.Inconclusive, "foreign": verdict.NotExercised,
	} {
		v, err := verdict.Read(filepath.Join(stored, name))
		if err != nil {
			t.Fatal(err)
		}
		if v.Overall != want {
			t.Errorf("%s is %s, want %s: %s", name, v.Overall, want, v.Reason)
		}
		for _, inv := range v.Invariants {
			if name == "foreign" && (inv.Status == verdict.Pass) != (inv.ID == linear.ID) {
				t.Errorf("of somebody else's lock %s is %s", inv.ID, inv.Status)
			}
		}
	}
}

// Each invariant is seen to fall in one history at least, and each stored folder is one of those described.
func TestEveryInvariantFallsSomewhere(t *testing.T) {
	fell, names := map[string]bool{}, map[string]bool{}
	for _, g := range golden.All() {
		names[g.Name] = true
		for _, id := range g.Violated {
			fell[id] = true
		}
	}
	for _, id := range verdict.IDs() {
		if pool := id == "POOL-01" || id == "POOL-02"; fell[id] == pool {
			t.Errorf("%s falls: %t", id, fell[id])
		}
	}
	entries, err := os.ReadDir(stored)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !names[e.Name()] {
			t.Errorf("nothing describes %s", e.Name())
		}
	}
}

// Verdicts that are the same say nothing of which history was judged, so that one could stand for another's unseen.
func TestTheStoredVerdictsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, g := range golden.All() {
		text, err := os.ReadFile(filepath.Join(stored, g.Name, verdict.FileName))
		if err != nil {
			t.Fatal(err)
		}
		if other := seen[string(text)]; other != "" {
			t.Errorf("%s and %s have one verdict", g.Name, other)
		}
		seen[string(text)] = g.Name
	}
}

// unrecorded makes the golden history of that name anew, and has it that nobody ever recorded the witness.
func unrecorded(t *testing.T, name string, w history.Witness) verdict.Run {
	t.Helper()
	all := golden.All()
	g := &all[slices.IndexFunc(all, func(g golden.Golden) bool { return g.Name == name })]
	run := t.TempDir()
	if err := g.Make(run); err != nil {
		t.Fatal(err)
	}
	kept, err := json.Marshal(slices.DeleteFunc(slices.Clone(history.Witnesses()), func(x history.Witness) bool { return x == w }))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range history.Witnesses() {
		path := filepath.Join(run, "history", string(x)+".ndjson")
		if x == w {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte(`"run":`), []byte(`"sparse":true,"witnesses":`+string(kept)+`,"run":`), 1)
		text = bytes.Replace(text, []byte(`"workload":`), []byte(`"reentrant":true,"workload":`), 1) // as our lock is
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	judged, err := golden.Judge(run)
	if err != nil {
		t.Fatal(err)
	}
	var v verdict.Run
	if err := json.Unmarshal(judged, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Gaps) > 0 {
		t.Fatalf("without %s there are gaps %v", w, v.Gaps)
	}
	return v
}

// What the other witnesses prove is violated whatever nobody recorded, also where the invariant rests on what was not.
func TestAViolationThatTheAnswersProveStaysOneThoughNobodyRecordedTheLog(t *testing.T) {
	for _, inv := range unrecorded(t, "repeated-token", history.LockDB).Invariants {
		if proven := inv.ID == "INV-04" || inv.ID == linear.ID; proven && inv.Status != verdict.Violated || !proven && inv.Status == verdict.Violated {
			t.Errorf("%s is %s: %s", inv.ID, inv.Status, inv.Reason)
		}
	}
	for _, inv := range unrecorded(t, "healthy-lock", history.LockDB).Invariants {
		if inv.ID == "INV-04" && inv.Status != verdict.NotExercised {
			t.Errorf("INV-04 is %s without what it rests on, so that a violation of it shows nothing", inv.Status)
		}
	}
}

// A witness that nobody had accuses nobody, whichever it is, and what rests on it is no pass.
func TestAWitnessThatNobodyRecordedAccusesNobody(t *testing.T) {
	for _, w := range []history.Witness{history.PayDB, history.LockDB, history.Journal, history.Nemesis, history.Logs, history.Run, history.Wiretap} {
		for _, name := range []string{"healthy-payout", "healthy-lock"} {
			for _, inv := range unrecorded(t, name, w).Invariants {
				if inv.Status == verdict.Violated || inv.Status == verdict.Pass && len(inv.Unrecorded) > 0 {
					t.Errorf("%s without %s: %s is %s: %s", name, w, inv.ID, inv.Status, inv.Reason)
				}
				if inv.ID == linear.ID && (inv.Status == verdict.Pass) != (w != history.Wiretap && w != history.Nemesis) {
					t.Errorf("%s without %s: %s is %s: %s", name, w, inv.ID, inv.Status, inv.Reason)
				}
			}
		}
	}
}

// What the documentation shows to whoever writes a recorder is a history.
func TestTheHistoryInTheDocumentationIsJudged(t *testing.T) {
	doc, err := os.ReadFile("../../docs/history.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := bytes.Cut(doc, []byte("```ndjson\n"))
	text, _, closed := bytes.Cut(text, []byte("```"))
	if !found || !closed {
		t.Fatal("there is none")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "history"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "history", "wiretap.ndjson"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	judged, err := golden.Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	var v verdict.Run
	if err := json.Unmarshal(judged, &v); err != nil {
		t.Fatal(err)
	}
	if last := v.Invariants[len(v.Invariants)-1]; last.ID != linear.ID || last.Status != verdict.Pass || last.Checked != 4 || v.Overall != verdict.NotExercised || len(v.Gaps) > 0 {
		t.Errorf("%s: %s", v.Overall, v.Reason)
	}
}
