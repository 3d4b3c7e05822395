package invariant

import (
	"fmt"
	"slices"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// reclaims watches the keys of holders that died: no sign of life came any more, and the lease ran out. Such a key must
// be granted again, within TTL + 2 s of the last sign of life, to whoever asks for it. A key that nobody asks for may lie
// idle for ever, and a request that gets no answer says nothing: only a request that was sent after that time and was
// answered LOCK_CONTENDED, while the log shows no later grant or renewal of the key, breaks the rule. While lockdb's clock is
// wrong it is wrong about when leases are over, and the time is counted anew from when it was right again.
type reclaims struct {
	progress *progress
	keys     map[string]*claimedKey
	again    int64
}

// claimedKey is a key as the lock store's log left it.
type claimedKey struct {
	held            bool
	dead            bool // the last grant ran out, or was reaped
	token           int64
	session, holder string
	ttl             int64
	alive           *history.Event // the last grant or renewal: committed at the latest when it was recorded
	refused         *exchange      // the first request that was refused since the last watermark
	told            bool           // reported already
}

// exchange is a request and its answer.
type exchange struct{ sent, answer *history.Event }

func (r *reclaims) key(name string) *claimedKey {
	k := r.keys[name]
	if k == nil {
		k = &claimedKey{}
		r.keys[name] = k
	}
	return k
}

func (r *reclaims) observe(e *history.Event) {
	if r.progress.book.anew {
		clear(r.keys) // the snapshot says who holds what now
	}
	switch {
	case e.W == history.LockDB && e.Op == history.OpWatermark:
		r.judge(e.Covers)
	case e.W == history.LockDB && e.Op == history.OpCommit && (e.Msg != snapshot || e.Epoch > 0):
		for i := range e.Changes {
			if c := &e.Changes[i]; c.Table == "lock_entry" {
				r.change(c, e)
			}
		}
	case e.W == history.Wiretap && e.Op == contract.OpAcquire && e.Stage == history.Answered && e.Code == contract.LockContended && !r.progress.book.clocks.lockdbIsWrong():
		if c := r.progress.book.call; c != nil && c.sent != nil {
			if k := r.key(e.Key); k.refused == nil {
				k.refused = &exchange{c.sent, r.progress.book.keep(e)}
			}
		}
	}
}

func (r *reclaims) change(c *history.Change, e *history.Event) {
	if c.New == nil {
		k := r.key(c.Old["lock_key"])
		k.dead = k.dead || ranOut(c, e) || slices.ContainsFunc(e.Changes, func(s history.Change) bool {
			return s.Table == "lock_session" && s.Kind == history.Delete && s.Old["session_id"] == c.Old["session_id"] && ranOut(&s, e)
		})
		k.held = false
		return
	}
	k := r.key(c.New["lock_key"])
	kept := r.progress.book.keep(e)
	if c.Kind == history.Update && renewal(c) {
		k.alive = kept
		return
	}
	if k.dead || c.Kind == history.Update && c.Old["session_id"] != c.New["session_id"] {
		r.again++
		r.progress.checked++
	}
	*k = claimedKey{held: true, token: history.Int(c.New["fencing_token"]), session: c.New["session_id"], holder: c.New["owner_id"], alive: kept, refused: k.refused,
		ttl: int64(rowOf(c.New, nil).ttl) * int64(time.Microsecond)}
}

// ranOut tells whether the deleted row of a grant or a session had expired.
func ranOut(c *history.Change, e *history.Event) bool {
	return e.Committed != 0 && moment(c.Old["expires_at"]) <= instant(e.Committed)
}

// judge takes the refusals that the lock store's log has passed.
func (r *reclaims) judge(covers int64) {
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
		if late := x.sent.T - max(k.alive.T, r.progress.book.clocks.right) - k.ttl - int64(reclaim); late > 0 {
			r.report(name, k, x)
		}
	}
}

func (r *reclaims) report(name string, k *claimedKey, x *exchange) {
	f := r.progress
	if f.pulse.stood(k.alive.T, x.answer.T) > standby {
		f.unresolved++
		return
	}
	k.told = true
	f.checked++
	f.report(fmt.Sprintf("%s asked for key %s %s after the last sign of life of %s, whose lease with token %d is %s, and was refused it", x.sent.Proc, name, since(k.alive.T, x.sent.T), k.holder, k.token, time.Duration(k.ttl)),
		want{key: name, tokens: [2]int64{k.token}}, k.alive, x.sent, x.answer)
}

// finish gives up what the log did not come to.
func (r *reclaims) finish() { clear(r.keys) }

func (r *reclaims) regranted() int64 { return r.again }

// lastElection: one PostgreSQL elects nobody.
func (r *reclaims) lastElection() int64 { return 0 }
