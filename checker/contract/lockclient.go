package contract

import (
	"strconv"
	"strings"
)

// The processes of the lock workload beside its clients: an operator who revokes, and somebody who looks at the end
// whether every key is to be had again.
const (
	LockOperator Process = "lock-operator"
	LockSweeper  Process = "lock-sweeper"
)

// Operator is who revokes grants for a nemesis.
const Operator Process = "operator"

// Auditor reads payouts and accounts while others write, and changes nothing.
const Auditor Process = "auditor"

const lockClientPrefix = "lock-client-"

// LockClient is the name of the n-th client of the lock workload; n counts from 1.
func LockClient(n int) Process { return Process(lockClientPrefix + strconv.Itoa(n)) }

// IsLockClient tells whether p is one of the lock workload's clients.
func (p Process) IsLockClient() bool {
	rest, ok := strings.CutPrefix(string(p), lockClientPrefix)
	if !ok {
		return false
	}
	n, err := strconv.Atoi(rest)
	return err == nil && n > 0
}
