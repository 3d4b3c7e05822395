package run

import (
	"context"

	"fenceproof/nemesis/plan"
)

// driver is a workload at work on the run's stack.
type driver interface {
	// seed makes what the drive needs.
	seed(ctx context.Context) error
	// drive puts the system to work until its time is over or ctx ends.
	drive(ctx context.Context) error
	// drain waits until what was begun has come to its end. What has not is seen in the verdict.
	drain(ctx context.Context) error
	// status is how things stand, in a few words each.
	status() []string
	// phases says in a few words what each phase does.
	phases() map[string]string
	close()
}

// newDriver is the driver of the run's workload.
func (r *state) newDriver() driver {
	if r.cfg.locks() {
		return &locks{state: r, seen: &lockCounts{}}
	}
	return &payouts{state: r}
}

// locks tells whether c is a run of the lock workload: there are no payouts, and nothing that is about them.
func (c Config) locks() bool { return c.Plan.Workload == plan.LockWorkload }
