package golden_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fenceproof/checker/golden"
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

// A judge that reads the history of another run must not pass for this one's.
func TestTheStoredHistoriesDiffer(t *testing.T) {
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
