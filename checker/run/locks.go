package run

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/deploy/local"
	"fenceproof/nemesis/plan"
	"fenceproof/workloads"
)

// locks drives the lock workload: every client is a process of the stack, so that it can be stopped.
type locks struct {
	*state
	seen *lockCounts
}

// DefaultLocks is the load of the lock workload where nobody says another: enough that every key is always asked for by
// several, and far from what the machine can do.
func DefaultLocks() plan.Locks {
	return plan.Locks{Clients: 6, Sessions: 3, Keys: 4, Rate: 120, Hold: plan.Duration(60 * time.Millisecond), Lapses: 0.02, Revokes: 1}
}

// LapsesOfRestores is the share of lapses where the lock store is put back and nobody says another: for half of the drive nobody
// holds a key, and holders have to die in the other half.
const LapsesOfRestores = 0.08

// DefaultLapses is the share of lapses in a run of p's nemeses where nobody says another.
func DefaultLapses(p plan.Plan) float64 {
	if slices.ContainsFunc(p.Nemeses(), func(n string) bool { return plan.Fault(n).OnStore() }) {
		return LapsesOfRestores
	}
	return DefaultLocks().Lapses
}

// lockProgram is the program of the lock clients, and its command for them: this very one, in the folder of the binaries.
const (
	lockProgram = "fenceproof"
	lockCommand = "lock-client"
)

// Times of the lock workload's end.
const (
	clientsEnd = 15 * time.Second // what is held is given back, and sessions are closed
	sweepEnd   = 15 * time.Second
	lookEvery  = 100 * time.Millisecond
)

func (d *locks) phases() map[string]string {
	return map[string]string{
		"seed":  "making the keys' names",
		"drive": "taking keys, giving them back, and breaking the system",
		"drain": "all is healed; the clients give back what they hold, and every key must be to be had again",
	}
}

// seed has nothing to make: a key is there when somebody asks for it.
func (d *locks) seed(context.Context) error {
	d.ev.rec.Subscribe(d.seen.observe)
	return nil
}

func (d *locks) close() {}

// drive starts the clients and watches over them until their time is over. They are still at work when it returns.
func (d *locks) drive(ctx context.Context) error {
	over, cancel := context.WithTimeout(ctx, time.Duration(d.cfg.Plan.Drive))
	defer cancel()
	l := d.cfg.Plan.Locks
	for n := range l.Clients {
		if err := d.start(ctx, workloads.Lock{Role: workloads.Worker, Owner: string(contract.LockClient(n + 1)), Sessions: l.Sessions,
			Rate: l.Rate / float64(l.Clients), HoldMillis: time.Duration(l.Hold).Milliseconds(), Lapses: l.Lapses}); err != nil {
			return err
		}
	}
	if l.Revokes > 0 {
		if err := d.start(ctx, workloads.Lock{Role: workloads.Operator, Owner: string(contract.LockOperator), Rate: l.Revokes}); err != nil {
			return err
		}
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-over.Done():
			return nil
		case <-tick.C:
		}
		if ended := d.stack.Ended(); len(ended) > 0 {
			return fmt.Errorf("%s ended in the middle of the drive; logs/ says why", strings.Join(ended, ", "))
		}
	}
}

// start starts one process of the lock workload.
func (d *locks) start(ctx context.Context, l workloads.Lock) error {
	l.Seed, l.Keys, l.Quiet, l.TTLMillis = d.cfg.Plan.Seed, lockKeys(d.cfg.Plan.Locks.Keys), quietKey, d.cfg.Plan.Lease().Milliseconds()
	return d.stack.StartClient(ctx, local.Client{
		Name: l.Owner, Program: filepath.Join(d.cfg.Bin, lockProgram), Server: local.LockServer,
		Args: func(server string) []string {
			l.Server = server
			text, _ := json.Marshal(l) // texts and numbers
			return []string{lockCommand, string(text)}
		},
	})
}

// quietKey is the key that hardly anybody asks for.
const quietKey = "cold"

// lockKeys are the names of n keys. They are alike on purpose: no key may touch another of which it is a part, or that
// differs in case alone.
func lockKeys(n int) []string {
	first := []string{"hot", "hot/1", "HOT", "hot 1"}
	keys := slices.Clone(first[:min(n, len(first))])
	for i := len(keys); i < n; i++ {
		keys = append(keys, fmt.Sprintf("hot/%d", i))
	}
	return keys
}

// stop asks the clients to end, and waits for it.
func (d *locks) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clientsEnd)
	defer cancel()
	if err := d.stack.StopClients(ctx); err != nil {
		return fmt.Errorf("end the lock clients: %w", err)
	}
	return nil
}

// drain ends the clients, and has somebody ask for every key.
func (d *locks) drain(ctx context.Context) error {
	if err := d.stop(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil // cut short: nobody asks any more
	}
	sweep, cancel := context.WithTimeout(ctx, sweepEnd)
	defer cancel()
	sweeper := string(contract.LockSweeper)
	err := d.start(sweep, workloads.Lock{Role: workloads.Sweeper, Owner: sweeper})
	if err == nil {
		err = d.stack.AwaitClient(sweep, sweeper)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (d *locks) status() []string {
	c := d.seen.read()
	return []string{fmt.Sprintf("%d granted", c.granted), fmt.Sprintf("%d contended", c.contended), fmt.Sprintf("%d lost", c.lost), fmt.Sprintf("%d revoked", c.revoked)}
}

// lockCounts counts what lock clients were answered.
type lockCounts struct {
	mu sync.Mutex
	n  lockCount
}

// lockCount is a reading of the counts: grants, refusals because of another holder, answers that a grant was lost, revokes.
type lockCount struct{ granted, contended, lost, revoked int64 }

func (c *lockCounts) observe(e *history.Event) {
	if e.W != history.Wiretap || e.Stage != history.Answered || !e.Proc.IsLockClient() && e.Proc != contract.LockOperator {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.Op == contract.OpAcquire && e.Granted > 0:
		c.n.granted++
	case e.Code == contract.LockContended:
		c.n.contended++
	case e.Code == contract.LockLost:
		c.n.lost++
	case e.Op == contract.OpRevoke && e.Type == contract.OK:
		c.n.revoked++
	}
}

func (c *lockCounts) read() lockCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
