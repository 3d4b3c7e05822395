package run

import (
	"testing"

	"fenceproof/nemesis/plan"
	"fenceproof/workloads"
)

// Two packages that must not know of each other speak of the longest lease.
func TestThePlanKnowsTheLongestLeaseThatLockClientsAskFor(t *testing.T) {
	l := DefaultLocks()
	for _, backend := range plan.Backends() {
		p := plan.Plan{Workload: plan.LockWorkload, Backend: backend, Locks: &l}
		if want := workloads.LongLease * p.Lease(); p.LongestLease() != want {
			t.Errorf("on %s the plan says %s, and clients ask for %s", backend, p.LongestLease(), want)
		}
		p.Locks = nil
		if p.LongestLease() != p.Lease() {
			t.Errorf("on %s nobody asks for more than %s, and the plan says %s", backend, p.Lease(), p.LongestLease())
		}
	}
}
