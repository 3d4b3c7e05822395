package invariant

import (
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// kills counts what was killed at the moments that matter: what each fold must have been spared, or must have stood, to
// say anything about crashes. That it was killed, the nemesis' word is taken for; what was going on then, the wiretap's.
type kills struct {
	afterGrant int64 // the lock server or what keeps its locks, right after a grant was answered
	inPost     int64 // paydb or payment-resource, while a post was on its way to them
	stores     int64 // a database, or a member of etcd
	holding    int64 // a client with a key in its hands

	posts   map[int64]bool   // open calls that post
	granted map[string]int64 // by key, when its last grant was delivered
	aimed   map[int]aim      // by window, from its injection until its effect is seen
}

// aim is what was going on when a kill was injected. SIGKILL follows at once, while it takes a whole server some time to be
// gone: what was answered meanwhile may have been decided before, and was on its way all the same.
type aim struct {
	grant bool // the grant that began it had only just been delivered
	post  bool // a post was on its way
}

// justNow is how long after the delivery of its grant a kill comes right after it. One that has to wait, for a leader or for
// another step to let its process go, may come later.
const justNow = 250 * time.Millisecond

func newKills() kills {
	return kills{posts: map[int64]bool{}, granted: map[string]int64{}, aimed: map[int]aim{}}
}

func (k *kills) hear(e *history.Event) {
	switch {
	case e.W == history.Wiretap:
		k.call(e)
	case e.W != history.Nemesis || e.Op != "kill":
	case e.Phase == "inject":
		at, known := k.granted[e.Key]
		k.aimed[e.Window] = aim{grant: known && e.T-at <= int64(justNow), post: len(k.posts) > 0}
	case e.Phase == "seen":
		k.seen(e, k.aimed[e.Window])
		delete(k.aimed, e.Window)
	case e.Phase == "failed":
		delete(k.aimed, e.Window)
	}
}

func (k *kills) call(e *history.Event) {
	switch {
	case e.Op == contract.OpAcquire && e.Stage == history.Delivered && e.Granted > 0:
		k.granted[e.Key] = e.T
	case e.Op == contract.OpPost && e.Stage == history.Forwarded:
		k.posts[e.Call] = true
	case e.Op == contract.OpPost && e.Stage == history.Answered:
		delete(k.posts, e.Call)
	}
}

func (k *kills) seen(e *history.Event, a aim) {
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
	case target == contract.PaymentResource || target == contract.PayDB:
		if a.post {
			k.inPost++
		}
	case a.grant && (target == contract.LockServer || store):
		k.afterGrant++
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
