// Package plan says what a nemesis will do, before it does it: a list of steps that can be printed, kept and replayed.
// One seed makes one plan. A plan is a pure value; nothing here knows processes or clocks.
package plan

import (
	"errors"
	"fmt"
	"time"

	"fenceproof/checker/contract"
)

// Schema is the version of the plan file.
const Schema = 1

// Plan is everything that a run needs to be run again: the load and the faults. Flags may override the load.
type Plan struct {
	Schema   int    `json:"schema"`
	Workload string `json:"workload"`
	Backend  string `json:"backend"`
	// EtcdMembers is how many members the etcd backend has: 1, 3 or 5; 0 stands for 1.
	EtcdMembers int `json:"etcdMembers,omitempty"`
	// Nemesis is what breaks the system: one of Names, several with commas between them, or Script.
	Nemesis   string  `json:"nemesis"`
	Seed      uint64  `json:"seed"`
	Executors int     `json:"executors,omitempty"`
	Accounts  int     `json:"accounts,omitempty"`
	Rate      float64 `json:"rate,omitempty"` // payouts per second offered
	// Payouts, where not 0, ends the drive after as many payouts were offered and finished.
	Payouts int `json:"payouts,omitempty"`
	// Funds is what each account is opened with, in minor units. 0 stands for enough for all its payouts, whatever is broken;
	// with less, the rules about available funds are put to the test. That is for runs with all fences on: what a fence does
	// not refuse, want of funds must not.
	Funds int64 `json:"funds,omitempty"`
	// Locks is the lock workload's load; with another workload, what puts the lock to work beside it.
	Locks *Locks   `json:"locks,omitempty"`
	Drive Duration `json:"drive"`
	// Prepare is EXECUTOR_PREPARE: the gap between an executor's last check and its write, in which a stop must land.
	Prepare Duration `json:"prepare,omitempty"`
	// Declines and LostReplies are the shares, 0 to 1, of transfers that the rail declines, and that it carries out without
	// an answer. LookupLag is how far its look-up is behind.
	Declines    float64  `json:"declines,omitempty"`
	LostReplies float64  `json:"lostReplies,omitempty"`
	LookupLag   Duration `json:"lookupLag,omitempty"`
	// Audits is how many payouts per second an auditor looks up, with their accounts, 0 for none.
	Audits float64 `json:"audits,omitempty"`
	// Together is how many faults that wait for an event may be active at once. Steps that begin at a time begin then.
	Together int `json:"together"`
	// GivenWay is how many steps a generated plan lacks because others have in their hands what they would hit.
	GivenWay int    `json:"givenWay,omitempty"`
	Steps    []Step `json:"steps"`
}

// Step is one fault: when it begins, on what, and when it ends.
type Step struct {
	Fault  Fault  `json:"fault"`
	Target Target `json:"target"`
	// Message is the message that a fault of single messages meets.
	Message *Message `json:"message,omitempty"`
	// Network is how a fault of links goes about it.
	Network *Network `json:"network,omitempty"`
	// Disk is how a fault of storage goes about it.
	Disk *Disk `json:"disk,omitempty"`
	// Clock is how a clock is moved.
	Clock *Movement `json:"clock,omitempty"`
	// At is the earliest time of the step, from the beginning of the drive.
	At Duration `json:"at,omitempty"`
	// On, where given, is the event that triggers the step: the first one after At. Then Delay passes.
	On    Event    `json:"on,omitempty"`
	Delay Duration `json:"delay,omitempty"`
	// Until, where given, is the event that ends the step. The step never lasts longer than For.
	Until Event    `json:"until,omitempty"`
	For   Duration `json:"for,omitempty"`
}

// Fault names what a step does.
type Fault string

// Pause stops a process with SIGSTOP and lets it go on with SIGCONT.
const Pause Fault = "pause"

// Faults lists all faults.
func Faults() []Fault {
	return []Fault{Pause, Kill, Cut, Hold, Slow, Reset, Delay, Drop, Duplicate, Reorder, Revoke, Clock, Restore, RestoreUnguarded, DiskFull, Failover, FailoverAsync}
}

// Target says whom a step hits: a process by name, or Holder.
type Target string

// Holder is the executor, or the lock client, whose answer triggered the step: it holds the lock of the payout's account,
// or the key that it was granted, at that instant.
const Holder Target = "holder"

// Event names something that happens in a run, as plans write it.
type Event string

// Events that trigger a step: the answer, of status 200, reached the executor. ClaimOK means a claim that found the
// payout PENDING or CLAIMED, so that the executor's next write is P6; SubmitOK and OutcomeOK mean ACKED.
const (
	ClaimOK     Event = "claim.ok"
	SubmittedOK Event = "submitted.ok"
	SubmitOK    Event = "submit.ok"
	OutcomeOK   Event = "outcome.ok"
	AcquireOK   Event = "acquire.ok" // a grant: an executor's, or a lock client's
)

// Events that end a step: a fence point accepted a higher token for the payout of the trigger, or somebody else was
// granted the key of the trigger.
const (
	SuccessorClaimed Event = "successor.claimed" // payment-resource, by a claim
	SuccessorAtRail  Event = "successor.at_rail" // rail-proxy
	SuccessorPosted  Event = "successor.posted"  // payment-resource, by a post
	SuccessorGranted Event = "successor.granted" // the lock server; after AcquireOK, or in the lock workload
)

// triggers lists the events that may stand in On.
func (p Plan) triggers() []Event {
	if p.forLocks() {
		return []Event{AcquireOK}
	}
	return []Event{ClaimOK, SubmittedOK, SubmitOK, OutcomeOK, AcquireOK, PostForwarded}
}

// ends lists the events that may stand in Until.
func (p Plan) ends() []Event {
	if p.forLocks() {
		return []Event{SuccessorGranted}
	}
	return []Event{SuccessorClaimed, SuccessorAtRail, SuccessorPosted, SuccessorGranted}
}

// NextFence is the event that says that a higher token was accepted at the fence point that an executor's next write
// after trigger goes to: from then on the write is stale there.
func NextFence(trigger Event) Event {
	switch trigger {
	case SubmittedOK:
		return SuccessorAtRail
	case OutcomeOK:
		return SuccessorPosted
	default:
		return SuccessorClaimed
	}
}

// Duration is a time.Duration that JSON writes as Go does: "250ms".
type Duration time.Duration

// MarshalText writes d as time.Duration prints it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "250ms", "1.5s".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is no duration; write it like 250ms or 1.5s", b)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// Validate says what is wrong with p, all of it.
func (p Plan) Validate() error {
	errs := p.validateLoad()
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if n, noun := p.holders(); len(p.Steps) > 0 && (p.Together < 1 || p.Together > MaxTogether || p.stops() && p.Together >= n) {
		bad("together, how many processes may be stopped at a time, is %d; 1 to %d, and where processes are stopped fewer than the %d %s, or nobody is left to take over", p.Together, MaxTogether, n, noun)
	}
	if p.GivenWay < 0 {
		bad("givenWay is %d; 0, or the number of steps that the plan lacks", p.GivenWay)
	}
	for i, s := range p.Steps {
		if err := s.validate(p); err != nil {
			bad("step %d: %w", i+1, err)
		}
	}
	return errors.Join(append(errs, p.validateFaults(), p.validateRail(), p.validateOverlaps())...)
}

// validateLoad says what is wrong with all but the steps.
func (p Plan) validateLoad() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Schema != Schema {
		bad("schema is %d; this version reads %d", p.Schema, Schema)
	}
	for _, err := range []error{known("workload", p.Workload, Workloads()), known("backend", p.Backend, Backends()), p.validateNemesis(), p.validateBackend()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if p.Locks != nil {
		if err := p.Locks.validate(); err != nil {
			bad("locks: %w", err)
		}
	}
	if p.forLocks() {
		errs = append(errs, p.validateLocks()...)
	} else {
		errs = append(errs, p.validatePayouts()...)
	}
	if p.Drive <= 0 || time.Duration(p.Drive) > MaxDrive {
		bad("drive is %s; more than 0, at most %s", p.Drive, MaxDrive)
	}
	return errs
}

// validatePayouts says what is wrong with the load of payouts.
func (p Plan) validatePayouts() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Executors < 1 || p.Executors > MaxExecutors {
		bad("executors is %d; 1 to %d", p.Executors, MaxExecutors)
	}
	if p.Accounts < 1 || p.Accounts > MaxAccounts {
		bad("accounts is %d; 1 to %d", p.Accounts, MaxAccounts)
	}
	if !(p.Rate > 0 && p.Rate <= MaxRate) {
		bad("rate is %v payouts per second; more than 0, at most %d", p.Rate, MaxRate)
	}
	if p.Payouts < 0 {
		bad("payouts is %d; 0 for no limit, or more", p.Payouts)
	}
	if p.Funds < 0 || p.Funds > MaxFunds {
		bad("funds is %d minor units; 0 for enough, or 1 to %d", p.Funds, int64(MaxFunds))
	}
	if !(p.Audits >= 0 && p.Audits <= MaxAudits) {
		bad("audits is %v payouts per second; 0 for none, at most %d", p.Audits, MaxAudits)
	}
	if p.Prepare < 0 || time.Duration(p.Prepare) > MaxPrepare {
		bad("prepare is %s; 0 to %s, or no lease of the run would cover a step", p.Prepare, MaxPrepare)
	}
	return errs
}

// Workloads lists the workloads.
func Workloads() []string { return []string{PayoutWorkload, LockWorkload} }

// Backends lists the lock backends.
func Backends() []string { return []string{BackendPG, BackendEtcd} }

// The lock backends.
const (
	BackendPG   = "pg"
	BackendEtcd = "etcd"
)

// Limits of a plan.
const (
	MaxExecutors = 64
	MaxAccounts  = 10_000
	// MaxTogether bounds the faults that may be active at once.
	MaxTogether = 64
	MaxRate     = 10_000
	MaxFunds    = 1_000_000_000_000_000 // so that no sum over all accounts comes near what a balance can be
	MaxAudits   = 100
	MaxDrive    = time.Hour
	MaxPrepare  = 200 * time.Millisecond // with a step timeout of 250 ms, what a lease of 1 s less its margin covers
)

func (s Step) validate(p Plan) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := known("fault", s.Fault, Faults()); err != nil {
		errs = append(errs, err)
	}
	if s.On != "" {
		if err := known("event on", s.On, p.triggers()); err != nil {
			errs = append(errs, err)
		}
	}
	if s.Until != "" {
		if err := known("event until", s.Until, p.ends()); err != nil {
			errs = append(errs, err)
		}
	}
	if err := s.validateMessage(p); err != nil {
		errs = append(errs, err)
	}
	for _, err := range []error{s.validateEnd(p), s.validateNetwork(p), s.validateRevoke(), s.validateClock(p), s.validateDisk(p), s.validateRestore(p), s.validateFailover(p)} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if s.Fault.OnMessage() || s.Fault.OnLink() {
		return errors.Join(append(errs, s.validateTime(p))...)
	}
	if err := known("target", s.Target, p.targets()); err != nil {
		errs = append(errs, err)
	}
	if s.On == "" && !s.Fault.OnStore() && !s.Fault.OnStandby() && (s.Target == Holder || s.Until != "" || s.Delay != 0) {
		bad("a step without \"on\" needs a process as target and knows neither \"until\" nor \"delay\"")
	}
	if s.beforeWrite() {
		if p.Prepare < 2*s.Delay {
			bad("delay %s does not fall between the executor's last check and its write: it must be at most half of prepare (%s)", s.Delay, p.Prepare)
		}
	}
	return errors.Join(append(errs, s.validateTime(p))...)
}

func (s Step) validateTime(p Plan) error {
	if s.For < 0 || s.For == 0 && s.Fault != Drop && s.Fault != Duplicate && !s.Fault.OnKey() || s.At < 0 || s.Delay < 0 {
		return errors.New("\"for\" must be positive, \"at\" and \"delay\" not negative")
	}
	if end := s.end(); end > p.Drive {
		return fmt.Errorf("it may last until %s, after the drive has ended (%s)", end, p.Drive)
	}
	return nil
}

func (p Plan) targets() []Target {
	all := []Target{Holder, LockStore}
	n, _ := p.holders()
	for i := 1; i <= min(n, MaxExecutors); i++ {
		all = append(all, Target(p.holder(i)))
	}
	if p.Backend == BackendEtcd {
		all = append(all, EtcdLeader)
	}
	return append(all, p.services()...)
}

func known[S ~string](what string, s S, names []S) error {
	for _, n := range names {
		if n == s {
			return nil
		}
	}
	return fmt.Errorf("%s %q is not known%s", what, s, contract.Meant(string(s), names))
}
