// Package golden keeps histories of which it is known what is wrong with them, and the verdict on each. Whoever changes the
// checker sees there what else changes; whoever writes a recorder or a checker of their own has something to compare with.
// The histories are stored as they are, compressed, and stay when what made them changes.
package golden

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"fenceproof/checker/history"
	"fenceproof/checker/jepsen"
	"fenceproof/checker/synthetic"
)

// Golden is one stored history: what it shows, and how it is made.
type Golden struct {
	Name  string
	Shows string // in one sentence
	// Violated lists the invariants that its verdict calls violated.
	Violated []string
	make     func(run string) error
}

// All lists the golden histories. POOL-01 and POOL-02 have none: there is no pool yet.
func All() []Golden {
	all := []Golden{
		{"healthy-payout", "payouts on PostgreSQL, with pauses, and nothing wrong", nil, from(synthetic.Options{Seed: 3, Events: 2500, Executors: 3, Accounts: 2})},
		{"healthy-payout-etcd", "payouts on etcd, with pauses, and nothing wrong", nil, from(synthetic.Options{Seed: 3, Events: 1500, Executors: 2, Accounts: 2, Backend: "etcd"})},
		{"healthy-lock", "clients that take keys and give them back, and nothing wrong", nil, from(lock)},
		{"healthy-lock-etcd", "the same on etcd", nil, from(synthetic.Options{Seed: 3, Events: 1500, Workload: "lock", Backend: "etcd"})},
		{"two-epochs", "lockdb put back to an older backup by the book: a second epoch, and nothing wrong", nil, from(restored)},
		{"two-epochs-rewound", "the same without the book: tokens are granted again", []string{"INV-04"}, from(unguarded(restored))},
		{"torn-tail", "the wiretap's last line is torn, as a run that was killed leaves it", nil, altered(lock, torn)},
		{"missing-witness", "the lock store's log is promised and not there", nil, altered(lock, without("lockdb"))},
		{"removed-event", "an event of the wiretap was removed, and the trailer made to fit", nil, altered(lock, removed)},
		{"foreign", "a lock service of somebody else's, of which only the answers were recorded, in Jepsen's form", nil, foreign(lock)},
		{"foreign-two-holders", "the same where two held a key at once", []string{"LIN-01"}, foreign(planted(synthetic.GrantWhileHeld, "lock"))},
	}
	for _, v := range synthetic.Violations() {
		workload, violated := "payout", slices.Clone(v.Breaks())
		if v.OfLocks() {
			workload = "lock"
			if v != synthetic.UnloggedRenewal && !slices.Contains(violated, "LIN-01") {
				violated = append(violated, "LIN-01")
			}
		} else {
			violated = slices.DeleteFunc(violated, func(id string) bool { return id == "LIN-01" })
		}
		all = append(all, Golden{string(v), v.Says(), violated, from(planted(v, workload))})
	}
	return all
}

var (
	lock     = synthetic.Options{Seed: 2, Events: 500, Executors: 3, Accounts: 2, Workload: "lock"}
	restored = synthetic.Options{Seed: 3, Events: 400, Executors: 3, Accounts: 2, Workload: "lock", Restore: true}
)

func unguarded(o synthetic.Options) synthetic.Options { o.Unguarded = true; return o }

// planted is as short a history as there is with v in it.
func planted(v synthetic.Violation, workload string) synthetic.Options {
	return synthetic.Options{Seed: 1, Events: 1, Executors: 1, Accounts: 1, Workload: workload, Violation: v, Only: true}
}

// Make makes g's history anew in the folder run, which must have none.
func (g *Golden) Make(run string) error {
	if err := g.make(run); err != nil {
		return fmt.Errorf("make the golden history %s: %w", g.Name, err)
	}
	return nil
}

func from(o synthetic.Options) func(string) error {
	return func(run string) error {
		_, err := synthetic.Write(filepath.Join(run, jepsen.HistoryDir), o)
		return err
	}
}

// altered makes a history, and does something to its files.
func altered(o synthetic.Options, alter func(dir string) error) func(string) error {
	return func(run string) error {
		if err := from(o)(run); err != nil {
			return err
		}
		return alter(filepath.Join(run, jepsen.HistoryDir))
	}
}

func without(w history.Witness) func(string) error {
	return func(dir string) error { return os.Remove(fileOf(dir, w)) }
}

func fileOf(dir string, w history.Witness) string { return filepath.Join(dir, string(w)+".ndjson") }

// torn cuts the wiretap's file in the middle of its last event.
func torn(dir string) error {
	path := fileOf(dir, history.Wiretap)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	last := lines[len(lines)-3] // behind it are the trailer, and nothing
	return os.WriteFile(path, append(bytes.Join(lines[:len(lines)-3], nil), last[:len(last)/2]...), 0o644)
}

// removed takes an event out of the wiretap's file and counts anew.
func removed(dir string) error {
	path := fileOf(dir, history.Wiretap)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	var before, last int64
	if _, err := fmt.Sscanf(string(lines[len(lines)-2]), `{"trailer":{"events":%d,"last":%d}}`, &before, &last); err != nil {
		return fmt.Errorf("read the trailer of %s: %w", path, err)
	}
	lines = slices.Delete(lines, 20, 21)
	lines[len(lines)-2] = fmt.Appendf(nil, "{\"trailer\":{\"events\":%d,\"last\":%d}}\n", before-1, last)
	return os.WriteFile(path, bytes.Join(lines, nil), 0o644)
}

// foreign takes from a history what Jepsen would have recorded of it.
func foreign(o synthetic.Options) func(string) error {
	return func(run string) error {
		whole, err := os.MkdirTemp("", "fenceproof-golden-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(whole)
		if err := from(o)(whole); err != nil {
			return err
		}
		var edn bytes.Buffer
		if _, err := jepsen.Export(filepath.Join(whole, jepsen.HistoryDir), &edn, jepsen.ExportOptions{}); err != nil {
			return err
		}
		_, err = jepsen.Import(&edn, run, jepsen.ImportOptions{Name: "foreign", Reentrant: true, Command: "fenceproof import history.edn --into FOLDER --reentrant"})
		return err
	}
}
