// Package verdict holds what the checker concludes: a status per invariant, the counts it rests on, and for a violation
// one plain sentence with the events that prove it. docs/verdict.md describes verdict.json.
package verdict

import (
	"time"

	"fenceproof/checker/history"
)

// SchemaVersion is the version of verdict.json.
const SchemaVersion = 1

// Status is the conclusion about one invariant, or about a run.
type Status string

// The statuses, from worst to best: Violated beats Inconclusive beats NotExercised beats Pass.
const (
	Violated     Status = "violated"
	Inconclusive Status = "inconclusive"
	NotExercised Status = "not exercised"
	Pass         Status = "pass"
)

func (s Status) rank() int {
	switch s {
	case Violated:
		return 3
	case Inconclusive:
		return 2
	case NotExercised:
		return 1
	case Pass:
		return 0
	}
	return 2 // an unknown status is never a pass
}

// Worse returns the worse of two statuses.
func Worse(a, b Status) Status {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// Violation is one proof that an invariant did not hold.
type Violation struct {
	// Sentence says in plain words what happened: "executor-1 wrote with token 41 after 42 had written".
	Sentence string `json:"sentence"`
	// Reissued is how many tokens the lock store had issued twice, where the sentence tells of that; else 0. What all of them
	// have in common stands before the sentence's first ": ", and some of them by name behind it.
	Reissued int64 `json:"reissued,omitempty"`
	// Subject is what it happened to: an account, a payout or a lock key.
	Account string `json:"account,omitempty"`
	Payout  string `json:"payout,omitempty"`
	Key     string `json:"key,omitempty"`
	// Across: the beginning of an epoch of the lock store's log explains it (Invariant.Across).
	Across bool `json:"across,omitempty"`
	// Events are the 3–6 events that prove it, in order of I.
	Events []history.Event `json:"events"`
	// Page is a page of its own that shows it in more detail, relative to the run's folder, "" for none.
	Page string `json:"page,omitempty"`
}

// MaxViolations is how many violations an Invariant keeps; Found counts all of them.
const MaxViolations = 20

// Invariant is the conclusion about one invariant.
type Invariant struct {
	ID        string `json:"id"`        // "INV-01"
	Guarantee string `json:"guarantee"` // what holds, in one sentence
	Status    Status `json:"status"`
	Reason    string `json:"reason,omitempty"` // why it is not a pass; "" when it is
	// Checked counts what was judged, Danger how often the danger that the invariant guards against was met, by
	// danger counter (for example "stale_refused_rail").
	Checked int64            `json:"checked"`
	Danger  map[string]int64 `json:"danger,omitempty"`
	// Unresolved counts what could not be attributed or decided and was therefore left out.
	Unresolved int64 `json:"unresolved,omitempty"`
	Found      int64 `json:"found"` // violations found
	// Across counts those of Found that the beginning of an epoch of the lock store's log explains: a store that was put
	// back, or a standby that was promoted, had forgotten what was granted before. INV-04 can tell, of tokens that go down,
	// and LIVE-01, of payouts that were late while tokens were still below those.
	Across     int64       `json:"across,omitempty"`
	Violations []Violation `json:"violations,omitempty"`
	// Doubt says why nobody can know, although no witness has a gap; Decide makes Inconclusive of it.
	Doubt string `json:"-"`
	// Unrecorded names the witnesses that it rests on and that nobody recorded; Decide makes NotExercised of it.
	Unrecorded []history.Witness `json:"-"`
}

// Run is the conclusion about one run: verdict.json.
type Run struct {
	Schema  int       `json:"schema"`
	ID      string    `json:"id"` // the run's folder name
	Started time.Time `json:"started"`
	// Overall is the worst status of the invariants that the run is judged by; Reason says in one sentence why.
	Overall Status `json:"overall"`
	Reason  string `json:"reason"`
	// Expect is set for a negative control: what had to be violated, and whether exactly that was.
	Expect *Expectation `json:"expect,omitempty"`
	Exit   int          `json:"exit"` // exit status of the command
	// Open says of a run whose nemesis declares what it breaks, and whose Exit is ExitOpen, why: Inconclusive or NotExercised.
	// Overall does not, where something fell as declared. "" otherwise.
	Open       Status            `json:"open,omitempty"`
	Invariants []Invariant       `json:"invariants"`
	Settings   Settings          `json:"settings"`
	Versions   map[string]string `json:"versions"`
	// Payouts counts the payouts by their last state; Refusals the FENCED_OUT answers by resource type (account,
	// ledger, rail); Operations the completed calls by operation.
	Payouts    map[string]int64 `json:"payouts"`
	Refusals   map[string]int64 `json:"refusals"`
	Operations map[string]int64 `json:"operations"`
	Events     int64            `json:"events"` // events in the history
	// Gaps says for each witness that lost its place or whose file is not complete what is missing.
	Gaps map[string]string `json:"gaps,omitempty"`
	// Unrecorded lists the witnesses that the history neither promises nor has: what rests on them was not judged.
	Unrecorded []history.Witness `json:"unrecorded,omitempty"`
	// Harness is what went wrong in the harness itself; with it the run proves nothing.
	Harness string `json:"harness,omitempty"`
}

// Settings are what a run was told to do; with Command anybody can do it again.
type Settings struct {
	Workload string `json:"workload"`
	Backend  string `json:"backend"`
	Nemesis  string `json:"nemesis"`
	Fencing  string `json:"fencing"` // on, payment-off, rail-off or off; empty where there is no fence point
	// Seed is a decimal string in the file: JavaScript loses bits above 2^53.
	Seed      uint64 `json:"seed,string"`
	Executors int    `json:"executors"`
	Accounts  int    `json:"accounts"`
	// Clients, Sessions and Keys are the lock workload's: client processes, sessions of each, and keys.
	Clients  int `json:"clients,omitempty"`
	Sessions int `json:"sessions,omitempty"`
	Keys     int `json:"keys,omitempty"`
	// Reentrant says of a lock whose answers alone were recorded that its holder may be granted it again.
	Reentrant bool `json:"reentrant,omitempty"`
	// Rate is payouts, or turns of the lock workload, per second offered; the durations are nanoseconds.
	Rate     float64           `json:"rate"`
	Drive    time.Duration     `json:"drive"`
	Drain    time.Duration     `json:"drain"`
	Command  string            `json:"command"`
	Services map[string]string `json:"services,omitempty"` // the services' variables that differ from their defaults
}

// Expectation is the must-fall and may-fall sets of a negative control, or of a nemesis that breaks something on purpose.
type Expectation struct {
	// DeclaredBy names the nemesis whose plan breaks it; "" where whoever asked for the run said so.
	DeclaredBy string   `json:"declaredBy,omitempty"`
	Must       []string `json:"must"`
	May        []string `json:"may,omitempty"`
	// Across names those of Must and May of which nothing but what the beginning of an epoch explains is declared
	// (Invariant.Across): a nemesis excuses no violation that it has not caused.
	Across []string `json:"across,omitempty"`
	// Met: every named one was violated as it is named and nothing else was. Missing and Surplus say what was not so.
	Met     bool     `json:"met"`
	Missing []string `json:"missing,omitempty"`
	Surplus []string `json:"surplus,omitempty"`
}
