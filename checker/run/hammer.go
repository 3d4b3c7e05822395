package run

import (
	"context"
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/workloads"
)

// hotKey is the lock key that the plan's lock clients are at. No account has it.
const hotKey = "hot"

// hammer puts the plan's lock clients to work for as long as the drive lasts, each over a link of its own.
func (r *state) hammer(ctx context.Context) error {
	if r.cfg.Plan.LockClients == 0 {
		return nil
	}
	h := &workloads.Hammer{Seed: r.cfg.Plan.Seed, Key: hotKey}
	for n := range r.cfg.Plan.LockClients {
		l, err := r.stack.OpenClient(workloads.HammerOwner(n+1), string(contract.LockServer))
		if err != nil {
			return fmt.Errorf("open the links of the lock clients: %w", err)
		}
		h.Servers = append(h.Servers, l.Address())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.cfg.Plan.Drive))
	defer cancel()
	if err := h.Run(ctx); err != nil {
		return fmt.Errorf("lock clients: %w", err)
	}
	return nil
}
