// Package linear judges LIN-01: per lock key and epoch, what was answered to acquires, renewals, releases and revokes can
// have taken place one after the other, each at one moment between its forwarding and its answer, on a lock with a single
// holder, increasing tokens and leases that run out. Porcupine searches the order; docs/invariants.md says what it is
// given and why that is enough.
//
// Other than the folds of checker/invariant it needs the whole history and a search, whose cost nobody can tell before.
// So it runs after the collection, key by key, each in a process of its own that has its time and its memory and may
// fail without taking anything else with it.
package linear

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// ID is the invariant's.
const ID = "LIN-01"

// Folder is where porcupine's pages are, in a run's folder.
const Folder = "linear"

const guarantee = "Per lock key, what was answered to acquires, renewals, releases and revokes can have taken place one after the other: one holder at a time, tokens that increase, leases that run out."

// Applies tells whether runs with these settings are judged by LIN-01: those whose workload is the lock itself. Clients of
// another workload use it as INV-04 and INV-06 judge it.
func Applies(s verdict.Settings) bool { return s.Workload == "lock" }

// Options say how a history is judged.
type Options struct {
	Budget Budget // per key; zero is DefaultBudget
	// Run is the run's folder, where porcupine's page of every key that fails is; "" knows of none.
	Run string
	// Again says that the run was judged before: nothing is written then, and the pages are those that are there.
	Again bool
	// Unrecorded lists the witnesses that the history does not have. Without a log of the lock store the answers alone are
	// judged, as docs/invariants.md says.
	Unrecorded []history.Witness
}

// alone tells whether there is no log of the lock store.
func (o *Options) alone() bool { return slices.Contains(o.Unrecorded, history.LockDB) }

// RestsOn lists the witnesses without which LIN-01 cannot be judged. Where the lock store's log was not recorded the answers
// are enough, as rests says.
func RestsOn() []history.Witness {
	return []history.Witness{history.LockDB, history.Wiretap, history.Nemesis}
}

// rests lists the witnesses without which this history cannot be judged. The nemesis says when the clock of lockdb was moved,
// by which its log is read; answers alone are judged by no clock but the recorder's, so that it counts only where it was there.
func (o *Options) rests() []history.Witness {
	return slices.DeleteFunc(RestsOn(), func(w history.Witness) bool {
		return o.alone() && w != history.Wiretap && slices.Contains(o.Unrecorded, w)
	})
}

// has tells whether whoever judged the run before has written that page.
func (o *Options) has(page string) bool {
	if !o.Again || o.Run == "" {
		return false
	}
	file, err := os.Stat(filepath.Join(o.Run, page))
	return err == nil && file.Mode().IsRegular()
}

// Judge judges the history in the folder dir. gaps says which witnesses are known not to be whole and why; where the
// invariant rests on one of them nothing is searched. The program must call RunIfAsked first of all. An error is the
// checker's own failure to read or write files; a key whose checker fails is not decided, which is no error.
func Judge(ctx context.Context, dir string, s verdict.Settings, gaps map[string]string, o Options) (verdict.Invariant, error) {
	inv := verdict.Invariant{ID: ID, Guarantee: guarantee}
	missing := map[history.Witness]string{}
	for _, w := range o.rests() {
		if slices.Contains(o.Unrecorded, w) {
			inv.Unrecorded = append(inv.Unrecorded, w)
		}
		if why, gap := gaps[string(w)]; gap {
			missing[w] = why
		}
	}
	if len(missing) > 0 || len(inv.Unrecorded) > 0 {
		return verdict.Decide(inv, missing, s), nil
	}
	if o.Budget == (Budget{}) {
		o.Budget = DefaultBudget
	}
	j := judgement{inv: inv, options: o, reentrant: s.Reentrant}
	if err := j.run(ctx, dir); err != nil {
		return inv, fmt.Errorf("judge %s: %w", ID, err)
	}
	return verdict.Decide(j.inv, missing, s), nil
}

// judgement is one history being judged.
type judgement struct {
	inv     verdict.Invariant
	options Options

	reentrant bool
	total     finding
	open      []string // keys that were not decided, and why
	twice     int64
	proof     [][]int64 // by kept violation: the I of its events
}

func (j *judgement) run(ctx context.Context, dir string) (err error) {
	s, err := newSpool()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	x, err := readHistory(dir, s, j.options.alone(), j.reentrant)
	if err != nil {
		return err
	}
	keys := slices.Sorted(slices.Values(s.order))
	for _, key := range keys {
		shared, err := writeFrame(x.frameOf(key))
		if err != nil {
			return err
		}
		entries, size := s.entries(key)
		readings, looks := s.readings()
		t := task{Key: key, Frame: int64(len(shared)), Entries: size, Readings: looks, Budget: j.options.Budget}
		if j.options.Run != "" && !j.options.Again && len(j.inv.Violations) < verdict.MaxViolations {
			t.Page = filepath.Join(j.options.Run, page(len(j.inv.Violations)+1))
		}
		f, err := ask(ctx, &t, shared, io.MultiReader(entries, readings))
		if err != nil {
			return err
		}
		j.take(key, f)
	}
	left := x.cut.left + j.total.Counts.Late
	j.inv.Unresolved = j.total.Counts.Unresolved + x.unsettle + left
	j.conclude(int64(len(keys)))
	if x.cut.at > 0 {
		j.inv.Danger["after_clock"] = left
	}
	return j.witnesses(dir)
}

// page is where porcupine's page of the nth violation is, from 1, within a run's folder. Keys are data, and no names.
func page(n int) string { return filepath.Join(Folder, strconv.Itoa(n)+".html") }

// take adds what was found out about one key.
func (j *judgement) take(key string, f finding) {
	if f.Twice {
		j.twice++
		j.total.Counts.Unresolved += f.Counts.Operations
		j.total.Counts.Late += f.Counts.Late
		return
	}
	j.total.Counts.add(f.Counts)
	j.total.Searched += f.Searched
	j.total.Segments += f.Segments
	switch {
	case f.Open != "":
		j.open = append(j.open, fmt.Sprintf("key %s: %s", key, f.Open))
	case f.Sentence != "":
		j.inv.Found++
		if n := len(j.inv.Violations); n < verdict.MaxViolations {
			v := verdict.Violation{Sentence: f.Sentence, Key: key}
			if f.Page || j.options.has(page(n+1)) {
				v.Page = filepath.ToSlash(page(n + 1))
			}
			j.inv.Violations = append(j.inv.Violations, v)
			j.proof = append(j.proof, f.Refs)
		}
	}
}

// conclude writes the counts down, and what is left open.
func (j *judgement) conclude(keys int64) {
	c := j.total.Counts
	j.inv.Checked = c.Operations
	j.inv.Danger = map[string]int64{
		"keys": keys, "searched": j.total.Searched, "contended": c.Contended, "ambiguous": c.Ambiguous, "unheard": c.Unheard,
		"expiries": c.Expiries, "takeovers": c.Takeovers, "revokes": c.Revokes, "sessions_ended": c.Sweeps,
	}
	if j.twice > 0 {
		j.inv.Danger["clock_put_back"] = j.twice
	}
	if n := len(j.open); n > 0 {
		j.inv.Doubt = fmt.Sprintf("%d of %d keys could not be decided: %s", n, keys, j.open[0])
	}
}
