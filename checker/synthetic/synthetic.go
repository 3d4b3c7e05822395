// Package synthetic makes histories without a run: the payout system in virtual time, seen by its witnesses. A history
// has the shape of a recorded one — the same calls, rows, lines and marks, of the same sizes, arriving as unevenly — and
// may be of any size. A violation can be planted in it, so that tests and benchmarks know what there is to find.
//
// Everything follows from the seed. Nothing here says anything about the real system: that is what runs are for.
package synthetic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fenceproof/checker/history"
)

// Options say what history to make. The zero value of every field but Seed stands for a default.
type Options struct {
	// Seed decides everything that the other fields leave open.
	Seed uint64
	// Events is about how many events the history gets: the load ends when it is reached, and what is open then still
	// comes to its end. Default 20,000; a run of 30 s has about 60,000.
	Events int
	// Backend is the store behind the lock: pg (the default) or etcd.
	Backend string
	// Workload is what the clients do: payout (the default), or lock, where they take keys and nothing else.
	Workload string
	// Restore puts lockdb back to an older backup half-way through a history of locks, so that another epoch begins; Unguarded
	// leaves the sequence of tokens as the backup has it.
	Restore, Unguarded bool
	// Executors and Accounts are as in a run; default 6 and 12. Of locks they are clients and keys; default 4 and 3.
	Executors, Accounts int
	// Violation is what to plant; "" for a healthy history.
	Violation Violation
	// Only leaves out all payouts but those of the violation, so that the history is as short as it can be.
	Only bool
	// At is where to plant it, from 0 (the first payouts) to 1 (the last ones); default 0.5.
	At float64
}

// Made is what was made.
type Made struct {
	Events, Bytes int64
	// Payouts counts the payouts by their last state.
	Payouts map[string]int64
	// Pauses is how often a holder was stopped, Refused how often a stale token was refused, at each fence point.
	Pauses, RefusedPayment, RefusedRail int64
}

// Write makes a history in dir, which is made where needed and must hold no history yet. Its memory grows with accounts
// and open payouts, not with events.
func Write(dir string, o Options) (Made, error) {
	if err := o.complete(); err != nil {
		return Made{}, fmt.Errorf("make a synthetic history: %w", err)
	}
	h, err := o.header()
	if err != nil {
		return Made{}, fmt.Errorf("make a synthetic history: %w", err)
	}
	files, err := create(dir, h)
	if err != nil {
		return Made{}, fmt.Errorf("make a synthetic history: %w", err)
	}
	w := newWorld(o, files)
	w.run()
	if err := files.close(); err != nil {
		return Made{}, fmt.Errorf("make a synthetic history: %w", err)
	}
	return w.made(), nil
}

func (o *Options) complete() error {
	if o.Backend == "" {
		o.Backend = "pg"
	}
	if o.Workload == "" {
		o.Workload = "payout"
	}
	if o.Workload == lockWorkload {
		o.Executors, o.Accounts = cmp.Or(o.Executors, 4), cmp.Or(o.Accounts, 3)
	}
	if o.Events == 0 {
		o.Events = 20_000
	}
	if o.Executors == 0 {
		o.Executors = 6
	}
	if o.Accounts == 0 {
		o.Accounts = 12
	}
	if o.At == 0 {
		o.At = 0.5
	}
	switch {
	case o.Events < 0, o.Executors < 0, o.Accounts < 0:
		return errors.New("events, executors and accounts cannot be negative")
	case o.At < 0 || o.At > 1:
		return fmt.Errorf("the place of the violation is %g; it goes from 0 to 1", o.At)
	case o.Violation != "" && violations[o.Violation].Plot == nil:
		return fmt.Errorf("%q is no violation; there are %v", o.Violation, Violations())
	case o.Backend != "pg" && o.Backend != etcdBackend:
		return fmt.Errorf("%q is no backend; there are pg and etcd", o.Backend)
	case o.Workload != "payout" && o.Workload != lockWorkload:
		return fmt.Errorf("%q is no workload; there are payout and lock", o.Workload)
	case o.Workload == lockWorkload && o.Violation != "" && !o.Violation.OfLocks():
		return fmt.Errorf("%s is nothing that a history of locks could have", o.Violation)
	case o.Only && o.Violation == "":
		return errors.New("only a violation was asked for, and none was named")
	case (o.Restore || o.Unguarded) && (o.Workload != lockWorkload || o.Backend != "pg"), o.Unguarded && !o.Restore:
		return errors.New("only the lock's database is restored here, in a history of locks")
	case o.Violation != "" && !o.Violation.On(o.Backend):
		return fmt.Errorf("nobody can see %s on %s", o.Violation, o.Backend)
	}
	return nil
}

// header is that of a run with the same settings, so that recheck takes the history as it takes any other.
func (o *Options) header() (history.Header, error) {
	nemesis, fencing := "pause", "on"
	if o.Workload == lockWorkload {
		nemesis, fencing = "none", ""
	}
	config, err := json.Marshal(map[string]any{"settings": map[string]any{
		"workload": o.Workload, "backend": o.Backend, "nemesis": nemesis, "fencing": fencing, "seed": fmt.Sprint(o.Seed),
		"executors": o.Executors, "accounts": o.Accounts, "rate": o.rate(), "drive": time.Duration(0), "drain": drainLimit,
		"command": "synthetic", "services": map[string]string{
			"LOCK_DEFAULT_TTL": o.ttl().String(), "LOCK_SESSION_TTL": o.ttl().String(), "EXECUTOR_PREPARE": prepare.String(),
			"EXECUTOR_STEPTIMEOUT": stepTimeout.String(), "RAIL_PROXY_TIMEOUT": railTimeout.String(),
			"RECONCILER_SETTLEMENTWINDOW": settlement.String(), "RECONCILER_INTERVAL": lookEvery.String(),
		},
	}})
	if err != nil {
		return history.Header{}, fmt.Errorf("write down the settings: %w", err)
	}
	return history.Header{RunID: fmt.Sprintf("synthetic-%d", o.Seed), Seed: o.Seed, Config: config,
		Versions: map[string]string{"synthetic": "1"}, Started: epoch}, nil
}

// epoch is the wall clock at the beginning of every synthetic history.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// ttl of locks and sessions, as in a run with that backend.
func (o *Options) ttl() time.Duration {
	if o.Backend == etcdBackend {
		return etcdTTL
	}
	return pgTTL
}

// rate is how many payouts a second are offered. A dead holder's key stays taken for longer on etcd, so fewer get done.
func (o *Options) rate() float64 {
	if o.Backend == etcdBackend {
		return 10
	}
	return 20
}

// The run profile: as that of a run.
const (
	pgTTL       = time.Second // of locks and sessions
	margin      = 0.30        // of a client's local deadline
	prepare     = 50 * time.Millisecond
	stepTimeout = 250 * time.Millisecond
	railTimeout = 200 * time.Millisecond
	railLatency = 20 * time.Millisecond
	settlement  = 5 * time.Second
	lookEvery   = time.Second            // the reconciler
	renewEvery  = 250 * time.Millisecond // a session and a grant: what is left of them always covers a step
	reapEvery   = 150 * time.Millisecond
	pollEvery   = 250 * time.Millisecond // an executor
	concurrency = 4
	drainLimit  = 60 * time.Second
)
