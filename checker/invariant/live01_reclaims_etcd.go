package invariant

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// etcdReclaims is reclaims where the lock's store is etcd. The log shows no renewals there, so a sign of life is also the
// answer to a renewal, whatever it says, since etcd may have kept the lease alive. A lease cannot run out while etcd does
// not work: its time counts anew from an election, which lengthens every lease, and from the end of a silence of the
// lock's witness, which reads from etcd several times a second.
type etcdReclaims struct {
	progress *progress
	keys     map[string]*etcdClaim
	renewals map[int64]etcdRenewal // open ones, by call
	closed   recentSessions        // that their clients asked to close
	marked   int64                 // T of the last watermark
	back     int64                 // when etcd was heard again last
	elected  int64                 // the latest election had been by then
	passed   int64                 // the wiretap has recorded everything up to this T
	heirs    []heir                // grants behind one that nobody released, so far; in order
	again    int64
}

// etcdClaim is a key as the log and the wiretap left it.
type etcdClaim struct {
	held            bool
	token           int64
	session, holder string
	ttl             int64
	began           *history.Event // the grant's commit
	sign            *history.Event // the last sign of life
	released        tokens
	last            heir      // the grant before, while it has no heir
	refused         *exchange // the first request that was refused since the last watermark
	told            bool
}

type etcdRenewal struct {
	key   string
	token int64
}

// heir is a grant behind one that has ended.
type heir struct {
	key, session string // of the ended one
	token        int64
	asked        bool  // its session's end or its own: somebody asked for it, by the log
	at           int64 // when the next grant was recorded
}

// silence is how long the witness may say nothing before etcd counts as having been away.
const silence = time.Second

func newEtcdReclaims(p *progress) *etcdReclaims {
	return &etcdReclaims{progress: p, keys: map[string]*etcdClaim{}, renewals: map[int64]etcdRenewal{}, closed: newRecentSessions()}
}

func (r *etcdReclaims) key(name string) *etcdClaim {
	k := r.keys[name]
	if k == nil {
		k = &etcdClaim{}
		r.keys[name] = k
	}
	return k
}

func (r *etcdReclaims) observe(e *history.Event) {
	if r.progress.book.anew {
		r.begin(e)
	}
	switch {
	case e.W == history.LockDB && e.Op == history.OpWatermark:
		if r.marked != 0 && e.T-r.marked > int64(silence) {
			r.back = max(r.back, e.T)
		}
		r.marked = e.T
		r.judge(e.Covers)
	case e.W == history.LockDB && e.Op == history.OpElection:
		r.elected = max(r.elected, e.T)
	case e.W == history.LockDB && e.Op == history.OpCommit && (e.Msg != snapshot || e.Epoch > 0):
		for i := range e.Changes {
			if c := &e.Changes[i]; c.Table == "lock_entry" {
				r.change(c, e)
			}
		}
	case e.W == history.Wiretap:
		r.hear(e)
	}
}

// begin begins an epoch. The snapshot says who holds what now, and leases count anew since etcd was started again.
func (r *etcdReclaims) begin(e *history.Event) {
	r.passed = max(r.passed, r.progress.book.heard)
	r.inherit()
	r.heirs = nil // whether they were given their keys, nobody was heard to say
	clear(r.keys)
	clear(r.renewals)
	r.closed = newRecentSessions()
	r.back = max(r.back, e.T)
}

func (r *etcdReclaims) change(c *history.Change, e *history.Event) {
	k := r.key(rowID(c, "lock_key"))
	maps.DeleteFunc(r.renewals, func(_ int64, q etcdRenewal) bool {
		return q == etcdRenewal{c.Old["lock_key"], history.Int(c.Old["fencing_token"])}
	})
	if c.New == nil {
		k.held = false
		k.last = heir{key: c.Old["lock_key"], session: c.Old["session_id"], token: history.Int(c.Old["fencing_token"]),
			asked: slices.ContainsFunc(e.Changes, func(o history.Change) bool { return o.Table == "lock_revocation" })}
		return
	}
	if k.last.token != 0 {
		k.last.at = e.T
		r.heirs = append(r.heirs, k.last)
	}
	kept := r.progress.book.keep(e)
	*k = etcdClaim{held: true, token: history.Int(c.New["fencing_token"]), session: c.New["session_id"], holder: c.New["owner_id"], began: kept, sign: kept,
		ttl: history.Int(c.New["ttl_ms"]) * int64(time.Millisecond), released: k.released, refused: k.refused}
}

func (r *etcdReclaims) hear(e *history.Event) {
	switch {
	case e.Op == contract.OpRelease && e.Stage == history.Forwarded:
		r.key(e.Key).released.add(e.Token)
	case e.Op == contract.OpCloseSession && e.Stage == history.Forwarded:
		r.closed.add(e.Session, nil)
	case e.Op == contract.OpRenew && e.Stage == history.Forwarded:
		r.renewals[e.Call] = etcdRenewal{e.Key, e.Token}
	case e.Op == contract.OpRenew && e.Stage == history.Answered && e.Status != 0: // one that got no answer may still be carried out
		delete(r.renewals, e.Call)
		if k := r.key(e.Key); k.held && k.token == e.Token && e.Type != contract.Fail {
			k.sign = r.progress.book.keep(e)
		}
	case e.Op == contract.OpAcquire && e.Stage == history.Answered && e.Code == contract.LockContended:
		if c := r.progress.book.call; c != nil && c.sent != nil {
			if k := r.key(e.Key); k.refused == nil {
				k.refused = &exchange{c.sent, r.progress.book.keep(e)}
			}
		}
	}
	r.passed = max(r.passed, e.T)
	r.inherit()
}

// inherit counts the grants behind a holder that died, once the wiretap has passed them: nobody had asked for that end.
func (r *etcdReclaims) inherit() {
	for len(r.heirs) > 0 && r.heirs[0].at < r.passed {
		if h := r.heirs[0]; !h.asked && !r.closed.has(h.session) && !r.key(h.key).released.has(h.token) {
			r.again++
			r.progress.checked++
		}
		r.heirs = slices.Delete(r.heirs, 0, 1)
	}
}

// judge takes the refusals that the lock store's log has passed.
func (r *etcdReclaims) judge(covers int64) {
	for _, name := range sortedKeys(r.keys) {
		k := r.keys[name]
		x := k.refused
		if x == nil || !covered(covers, x.answer.T) {
			continue
		}
		k.refused = nil
		if !k.held || k.told || k.ttl <= 0 {
			continue
		}
		if late := x.sent.T - max(k.sign.T, r.back, r.elected) - k.ttl - int64(reclaim); late > 0 {
			r.report(name, k, x)
		}
	}
}

func (r *etcdReclaims) report(name string, k *etcdClaim, x *exchange) {
	f := r.progress
	underWay := slices.Contains(slices.Collect(maps.Values(r.renewals)), etcdRenewal{name, k.token})
	if underWay || f.pulse.stood(k.sign.T, x.answer.T) > standby {
		f.unresolved++
		return
	}
	k.told = true
	f.checked++
	f.report(fmt.Sprintf("%s asked for key %s %s after the last sign of life of %s, whose lease with token %d is %s, and was refused it", x.sent.Proc, name, since(k.sign.T, x.sent.T), k.holder, k.token, time.Duration(k.ttl)),
		want{key: name, tokens: [2]int64{k.token}}, k.began, k.sign, x.sent, x.answer)
}

// finish gives up what the log did not come to.
func (r *etcdReclaims) finish() {
	clear(r.keys)
	r.heirs = nil
}

func (r *etcdReclaims) regranted() int64 { return r.again }

func (r *etcdReclaims) lastElection() int64 { return r.elected }
