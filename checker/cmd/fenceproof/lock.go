package main

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"fenceproof/checker/run"
	"fenceproof/nemesis/plan"
	"fenceproof/workloads"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// lockClientCommand is one process of the lock workload. A run starts it; it is for nobody else.
func lockClientCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lock-client WHAT", Hidden: true,
		Args: oneArg("what to do, as a run tells it"),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := workloads.ParseLock([]byte(args[0]))
			if err != nil {
				return &exitError{exitUsage, err}
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			l.Run(ctx)
			return nil
		},
	}
}

// auditCommand is the auditor of a run, likewise.
func auditCommand() *cobra.Command {
	return &cobra.Command{
		Use: "audit WHAT", Hidden: true,
		Args: oneArg("what to do, as a run tells it"),
		RunE: func(c *cobra.Command, args []string) error {
			a, err := workloads.ParseAudit([]byte(args[0]))
			if err != nil {
				return &exitError{exitUsage, err}
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			a.Run(ctx)
			return nil
		},
	}
}

// lockFlags are the load of the lock workload.
type lockFlags struct {
	clients, sessions, keys int
	rate, lapses, revokes   float64
	hold                    time.Duration
}

func (l *lockFlags) register(fs *pflag.FlagSet) {
	const of = "workload lock: "
	def := run.DefaultLocks()
	fs.IntVar(&l.clients, "clients", def.Clients, of+"client processes")
	fs.IntVar(&l.sessions, "sessions", def.Sessions, of+"sessions that each client has at once")
	fs.IntVar(&l.keys, "keys", def.Keys, of+"keys that all of them are at")
	fs.Float64Var(&l.rate, "turns", def.Rate, of+"keys asked for per second, all together (0: as many as they can)")
	fs.DurationVar(&l.hold, "hold", time.Duration(def.Hold), of+"how long a key is held at most")
	fs.Float64Var(&l.lapses, "lapses", def.Lapses, of+fmt.Sprintf("share of turns in which a lease or a session is let run out, 0 to 1 (nemeses restore and restore-unguarded: %v)", run.LapsesOfRestores))
	fs.Float64Var(&l.revokes, "revokes", def.Revokes, of+"grants that an operator revokes per second")
}

// plan is the load as a plan has it.
func (l lockFlags) plan() *plan.Locks {
	return &plan.Locks{Clients: l.clients, Sessions: l.sessions, Keys: l.keys, Rate: l.rate, Hold: plan.Duration(l.hold), Lapses: l.lapses, Revokes: l.revokes}
}

// overrides sets, by the name of the flag, what a flag may change in the load of a plan.
func (l lockFlags) overrides(p *plan.Plan) map[string]func() {
	set := func(change func(*plan.Locks)) func() {
		return func() {
			locks := plan.Locks{}
			if p.Locks != nil {
				locks = *p.Locks
			}
			change(&locks)
			p.Locks = &locks
		}
	}
	return map[string]func(){
		"clients": set(func(x *plan.Locks) { x.Clients = l.clients }), "sessions": set(func(x *plan.Locks) { x.Sessions = l.sessions }),
		"keys": set(func(x *plan.Locks) { x.Keys = l.keys }), "turns": set(func(x *plan.Locks) { x.Rate = l.rate }),
		"hold": set(func(x *plan.Locks) { x.Hold = plan.Duration(l.hold) }), "lapses": set(func(x *plan.Locks) { x.Lapses = l.lapses }),
		"revokes": set(func(x *plan.Locks) { x.Revokes = l.revokes }),
	}
}

// again names the flags of p that are not the defaults.
func (l lockFlags) again(p plan.Plan, add func(name, value, def string)) {
	def, x := run.DefaultLocks(), *p.Locks
	add("clients", fmt.Sprint(x.Clients), fmt.Sprint(def.Clients))
	add("sessions", fmt.Sprint(x.Sessions), fmt.Sprint(def.Sessions))
	add("keys", fmt.Sprint(x.Keys), fmt.Sprint(def.Keys))
	add("turns", fmt.Sprint(x.Rate), fmt.Sprint(def.Rate))
	add("hold", x.Hold.String(), def.Hold.String())
	add("lapses", fmt.Sprint(x.Lapses), fmt.Sprint(run.DefaultLapses(p)))
	add("revokes", fmt.Sprint(x.Revokes), fmt.Sprint(def.Revokes))
}

// Flags that say something of one workload only.
var (
	payoutOnly = []string{"executors", "accounts", "rate", "payouts", "prepare", "declines", "lost-replies", "lookup-lag", "fencing", "control"}
	lockOnly   = []string{"clients", "sessions", "keys", "turns", "hold", "lapses", "revokes"}
)

// fits refuses flags that mean nothing in the run's workload.
func fits(workload string, fs *pflag.FlagSet) error {
	if workload == plan.LockWorkload {
		for _, name := range payoutOnly {
			if fs.Changed(name) {
				return fmt.Errorf("--%s says something of payouts, their executors or their fence points, and workload %s has none of them", name, workload)
			}
		}
		return nil
	}
	for _, name := range lockOnly {
		if fs.Changed(name) {
			return fmt.Errorf("--%s is for --workload %s; what puts the lock to work beside %ss is \"locks\" in a plan file", name, plan.LockWorkload, workload)
		}
	}
	return nil
}
