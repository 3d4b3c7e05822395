package plan

import (
	"slices"
	"testing"
	"time"

	"fenceproof/checker/contract"
)

// sweeping are the plans of nemesis sweep, by backend: of both workloads.
func sweeping(seed uint64) map[string][]Plan {
	all := map[string][]Plan{}
	for _, backend := range Backends() {
		payout, lock := example(seed), lockExample(seed)
		payout.LookupLag = Duration(500 * time.Millisecond)
		for _, p := range []Plan{payout, lock} {
			p.Backend, p.Nemesis, p.Drive = backend, Sweep, Duration(10*time.Second)
			all[backend] = append(all[backend], p)
		}
	}
	return all
}

// contracted are the endpoints of the contract's table.
var contracted = []contract.Op{
	contract.OpOpenSession, contract.OpHeartbeat, contract.OpCloseSession, contract.OpAcquire, contract.OpRenew, contract.OpRelease, contract.OpInspect, contract.OpRevoke,
	contract.OpListPayouts, contract.OpClaim, contract.OpPost, contract.OpGetPayout, contract.OpGetAccount, contract.OpSubmitted, contract.OpOutcome, contract.OpResolve,
	contract.OpSubmit, contract.OpTransfer,
}

func TestASweepMeetsEveryEndpointWithEveryFaultAndNeverDoublesATransfer(t *testing.T) {
	for seed := range uint64(10) {
		for backend, plans := range sweeping(seed) {
			type cell struct {
				op contract.Op
				f  Fault
			}
			met := map[cell]int{}
			for _, p := range plans {
				p = generate(t, p)
				for _, s := range p.Steps {
					if c := (cell{s.Message.Op, s.Fault}); s.Fault != Drop || s.Message.Side == Answer {
						met[c]++
					}
					if s.Fault == Delay && (time.Duration(s.For) <= p.Lease() || time.Duration(s.For) >= SettlementWindow) {
						t.Errorf("%s, seed %d: %s is delayed by %s", backend, seed, s.Message.Op, s.For)
					}
				}
				if again := generate(t, sweeping(seed)[backend][slices.Index(Workloads(), p.Workload)]); text(t, again) != text(t, p) {
					t.Errorf("%s, seed %d: one seed makes two plans", backend, seed)
				}
			}
			for _, op := range contracted {
				for _, f := range []Fault{Drop, Duplicate, Delay} {
					if n, never := met[cell{op, f}], op == contract.OpTransfer && f == Duplicate; never != (n == 0) || !never && n < sweepRounds {
						t.Errorf("%s, seed %d: %s meets %s %d times", backend, seed, f, op, n)
					}
				}
			}
		}
	}
}

func TestASweepHasSomebodyWhoCallsEveryEndpoint(t *testing.T) {
	for _, plans := range sweeping(1) {
		for _, p := range plans {
			before := text(t, p)
			got := generate(t, p)
			if p.forLocks() && got.Locks.Revokes < sweepRevokes || !p.forLocks() && (got.Audits == 0 || got.LostReplies == 0) {
				t.Errorf("nobody revokes, audits or resolves: %+v", got)
			}
			if text(t, p) != before {
				t.Error("the plan that it was made from has changed")
			}
		}
	}
}

func TestAFlakyPlanLosesRepeatsDelaysAndReordersMessagesOfEveryKind(t *testing.T) {
	for seed := range uint64(20) {
		for _, p := range everywhere() {
			p.Nemesis, p.Seed = Flaky, seed
			p.LostReplies = 0
			if !p.forLocks() {
				p.LostReplies = 0.03
			}
			p = generate(t, p)
			kinds, ops := map[Fault]int{}, map[contract.Op]bool{}
			for _, s := range p.Steps {
				if !s.Fault.OnMessage() {
					continue
				}
				kinds[s.Fault]++
				ops[s.Message.Op] = true
				if s.Fault == Duplicate && s.Message.Op == contract.OpTransfer || s.Message.Op == contract.OpTransfer && time.Duration(s.For) > railLate {
					t.Errorf("seed %d: %+v", seed, s)
				}
			}
			if kinds[Drop] < 20 || kinds[Duplicate] < 15 || kinds[Delay] < 20 || kinds[Reorder] < 8 || len(ops) < 6 {
				t.Errorf("%s on %s, seed %d: %v on %d operations", p.Workload, p.Backend, seed, kinds, len(ops))
			}
			if !p.forLocks() && len(ops) < 11 {
				t.Errorf("%s, seed %d: only %d operations", p.Backend, seed, len(ops))
			}
		}
	}
}
