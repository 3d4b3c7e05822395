// Package run is one run of the suite: it boots the stack, drives and breaks it, collects the evidence, judges it and
// writes the report. It is the only place where the suite's parts and the deployment meet; whatever stands on top of a
// run has a package of its own.
package run

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/invariant"
	"fenceproof/checker/linear"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// Config is what a run is told.
type Config struct {
	Plan    plan.Plan
	Fencing Fencing
	Expect  *verdict.Expectation // negative control, or nil
	Command string               // the command that does it again
	Runs    string               // folder of all runs
	Bin     string               // folder of the services' binaries, and of fenceproof's own for the lock clients
	Watch   *Watch               // ends the run early, or nil; without Keep nothing of the databases is kept then, whatever comes of it
	Keep    bool                 // keep the databases' folders after a pass
	Out     io.Writer            // progress
	Live    bool                 // Out is a terminal: one live status line
	Quiet   bool                 // only the verdict
}

// Fencing says which fence points are on.
type Fencing string

// The settings of the experiment.
const (
	FencingOn         Fencing = "on"
	FencingPaymentOff Fencing = "payment-off"
	FencingRailOff    Fencing = "rail-off"
	FencingOff        Fencing = "off"
)

// Fencings lists them.
func Fencings() []Fencing {
	return []Fencing{FencingOn, FencingPaymentOff, FencingRailOff, FencingOff}
}

// Payment tells whether fence point 1 is on, Rail whether fence point 2 is.
func (f Fencing) Payment() bool { return f == FencingOn || f == FencingRailOff }

// Rail tells whether fence point 2 is on.
func (f Fencing) Rail() bool { return f == FencingOn || f == FencingPaymentOff }

// Check refuses a run that would hide what it is about: with a fence off, a write that the fence would have refused may be
// refused for want of funds, so that it does no harm and shows nothing (page 1.7 of the contract).
func (c Config) Check() error {
	if c.Fencing != FencingOn && c.Plan.Funds != 0 {
		return fmt.Errorf("the plan opens accounts with \"funds\" of %d, and fencing is %s: want of funds would stand in for the fence that is off; leave \"funds\" out, or the fences on", c.Plan.Funds, c.Fencing)
	}
	return nil
}

// CheckExpectation refuses one that cannot be met: a run of this workload is not judged by what it names.
func (c Config) CheckExpectation() error {
	if c.Expect == nil {
		return nil
	}
	s := c.settings()
	judged := invariant.Judged(s)
	if linear.Applies(s) {
		judged = append(judged, linear.ID)
	}
	for _, id := range slices.Concat(c.Expect.Must, c.Expect.May) {
		if !slices.Contains(judged, id) {
			return fmt.Errorf("workload %s is not judged by %s, but by %s", s.Workload, id, strings.Join(judged, ", "))
		}
	}
	return nil
}

// Control is what must and what may fall when f is put to the test by pauses (page 1.7 of the contract): each fence
// point guards its own resource, and nothing else breaks.
func (f Fencing) Control() *verdict.Expectation {
	switch f {
	case FencingPaymentOff:
		return &verdict.Expectation{Must: []string{"INV-01", "INV-03", "INV-05"}, May: []string{"INV-08", "LIVE-01"}}
	case FencingRailOff:
		return &verdict.Expectation{Must: []string{"INV-02", "INV-05"}, May: []string{"INV-03"}}
	case FencingOff:
		return &verdict.Expectation{Must: []string{"INV-01", "INV-02", "INV-03", "INV-05"}, May: []string{"INV-08", "LIVE-01"}}
	}
	return nil
}

// The run profile (page 2.1 of the contract): short leases and a rail quick enough for many pauses in one drive.
const (
	stepTimeout      = 250 * time.Millisecond
	railTimeout      = plan.RailTimeout
	railLatencyMS    = 20
	concurrency      = 4
	poll             = 250 * time.Millisecond
	settlementWindow = plan.SettlementWindow
	reconcile        = 250 * time.Millisecond // RECONCILER_INTERVAL
	Prepare          = 50 * time.Millisecond  // EXECUTOR_PREPARE: the gap that pauses aim at
	DefaultDrive     = 30 * time.Second
	MinDrive         = time.Second // in less nothing comes to work
	DefaultExecutors = 6
	DefaultAccounts  = 12
	DefaultRate      = 20.0
	// The rail's habits while all fences are on.
	DefaultDeclines    = 0.05
	DefaultLostReplies = 0.03
	DefaultLookupLag   = 500 * time.Millisecond
	maxDrain           = 15 * time.Second
	stalledDrain       = 10 * time.Second // a drain that has lasted maxDrain goes on while payouts end as often as this: at a load of 30 none may end for 5 s
	slowDrain          = 60 * time.Second // and no longer than this
)

// services is the environment of each process, as far as it differs from the processes' own defaults.
func services(c Config) map[contract.Process]map[string]string {
	lease := c.Plan.Lease().String() // of sessions, too
	lockServer := map[string]string{"LOCK_DEFAULT_TTL": lease, "LOCK_SESSION_TTL": lease}
	if c.locks() {
		return map[contract.Process]map[string]string{contract.LockServer: lockServer}
	}
	env := map[contract.Process]map[string]string{
		contract.LockServer:      lockServer,
		contract.PaymentResource: {"PAYMENT_FENCING_ENABLED": strconv.FormatBool(c.Fencing.Payment())},
		contract.RailProxy: {
			"RAIL_PROXY_FENCING_ENABLED": strconv.FormatBool(c.Fencing.Rail()),
			"RAIL_PROXY_TIMEOUT":         railTimeout.String(),
		},
		contract.RailStub: {
			"RAIL_STUB_LATENCYMS": strconv.Itoa(railLatencyMS), "RAIL_STUB_SEED": strconv.FormatUint(c.Plan.Seed, 10),
			"RAIL_STUB_FAILURERATE": share(c.Plan.Declines), "RAIL_STUB_DUPLICATEACKRATE": share(c.Plan.LostReplies),
			"RAIL_STUB_LOOKUPLAGMS": strconv.FormatInt(time.Duration(c.Plan.LookupLag).Milliseconds(), 10),
		},
		contract.Reconciler: {
			"LOCK_DEFAULT_TTL": lease, "LOCK_SESSION_TTL": lease,
			"RECONCILER_SETTLEMENTWINDOW": settlementWindow.String(), "RECONCILER_INTERVAL": reconcile.String(),
			"RECONCILER_STEPTIMEOUT": stepTimeout.String(),
		},
	}
	for n := range c.Plan.Executors {
		env[contract.Executor(n+1)] = map[string]string{
			"LOCK_DEFAULT_TTL": lease, "LOCK_SESSION_TTL": lease,
			"EXECUTOR_PREPARE": c.Plan.Prepare.String(), "EXECUTOR_STEPTIMEOUT": stepTimeout.String(),
			"EXECUTOR_CONCURRENCY": strconv.Itoa(concurrency), "EXECUTOR_POLL": poll.String(),
		}
	}
	return env
}

func share(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// settings is what the verdict says about c.
func (c Config) settings() verdict.Settings {
	s := verdict.Settings{
		Workload: c.Plan.Workload, Backend: c.Plan.Backend, Nemesis: c.Plan.Nemesis, Fencing: string(c.Fencing),
		Seed: c.Plan.Seed, Executors: c.Plan.Executors, Accounts: c.Plan.Accounts, Rate: c.Plan.Rate,
		Drive: time.Duration(c.Plan.Drive), Drain: maxDrain, Command: c.Command, Services: map[string]string{},
	}
	if c.locks() {
		l := c.Plan.Locks
		s.Fencing, s.Rate, s.Clients, s.Sessions, s.Keys = "", l.Rate, l.Clients, l.Sessions, l.Keys
	}
	for p, env := range services(c) {
		if p.IsExecutor() && p != contract.Executor(1) {
			continue // all executors are alike
		}
		for k, v := range env {
			s.Services[k] = v
		}
	}
	return s
}

// id names the run's folder.
func (c Config) id(now time.Time) string {
	return fmt.Sprintf("%s-%s-%s-%s-%d", now.UTC().Format("20060102T150405.000Z"), c.Plan.Workload, c.Plan.Backend, strings.ReplaceAll(c.Plan.Nemesis, ",", "+"), c.Plan.Seed)
}
