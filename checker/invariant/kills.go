package invariant

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// kills counts what was killed at the moments that matter: what each fold must have been spared, or must have stood, to
// say anything about crashes. The nemesis' word is taken for it; it counts a danger and proves nothing.
type kills struct {
	afterGrant int64 // the lock server or what keeps its locks, right after a grant was answered
	inPost     int64 // paydb or payment-resource, while a post was on its way to them
	stores     int64 // a database, or a member of etcd
	holding    int64 // a client with a key in its hands
}

func (k *kills) hear(e *history.Event) {
	if e.Op != "kill" || e.Phase != "seen" {
		return
	}
	target := contract.Process(e.Target)
	store := target == contract.PayDB || target == contract.LockDB || target.IsEtcd()
	if store {
		k.stores++
	}
	switch {
	case target.IsExecutor() || target.IsLockClient():
		if e.Token > 0 {
			k.holding++
		}
	case e.Key != "" && (target == contract.LockServer || store && target != contract.PayDB):
		k.afterGrant++
	case e.Payout != "" && (target == contract.PaymentResource || target == contract.PayDB):
		k.inPost++
	}
}

// among puts counts of what a nemesis did among the danger of a fold, where there was any of it.
func among(danger map[string]int64, counts ...map[string]int64) map[string]int64 {
	for _, of := range counts {
		for name, n := range of {
			if n > 0 {
				danger[name] = n
			}
		}
	}
	return danger
}
