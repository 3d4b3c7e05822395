package reports

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/verdict"
)

// subjects says what the lock's keys stand for in a run: for accounts where payouts were driven, for nothing but themselves
// where only the lock was put to work. The page's "accounts" are keys then.
type subjects struct{ locks bool }

// subjectsOf are those of run.
func subjectsOf(run verdict.Run) subjects { return subjects{run.Settings.Workload == "lock"} }

// of is what key stands for, "" where that is nothing that the page is about.
func (s subjects) of(key string) string {
	if s.locks {
		return key
	}
	return accountOfKey(key)
}

// The points of marks that are no fence points: the lock itself refused the use of a grant that was over; an operator
// revoked a grant.
const (
	lostGrant    = "lock"
	revokedGrant = "revoke"
)

// lostKey tells whether c came to use a grant that was over, and was told so.
func (c *call) lostKey() bool {
	return c.code == contract.LockLost && (c.op == contract.OpRelease || c.op == contract.OpRenew)
}
