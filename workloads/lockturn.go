package workloads

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

// worker is one session's worth of a Worker: it takes one turn after the other.
type worker struct {
	*lockClient
	rng     *rand.Rand
	session *lockSession
	begun   context.Context // ends when no new work is to begin
}

func newWorker(c *lockClient, i int) *worker { return &worker{lockClient: c, rng: c.rng(i)} }

// turn is a way to take a key and to give it back.
type turn func(w *worker, key string)

// ways are the turns beside those that let a lease run out, and how many of all shares each has.
var ways = []struct {
	share int
	take  turn
}{
	{9, (*worker).simply}, {5, (*worker).renewing}, {4, (*worker).again}, {3, (*worker).two}, {2, (*worker).twice}, {1, (*worker).closing},
}

// run takes turns at w's pace until ctx ends, and then closes the session.
func (w *worker) run(ctx context.Context) {
	w.begun = ctx
	for ctx.Err() == nil {
		began := time.Now()
		if !w.alive() {
			pause(ctx, lockRetry)
			continue
		}
		w.draw()(w, w.Keys[w.rng.IntN(len(w.Keys))])
		w.pace(ctx, began)
	}
	if w.session != nil {
		w.close(w.session)
	}
}

// pace waits for the next turn: somewhere around its time, so that the workers do not go in step.
func (w *worker) pace(ctx context.Context, began time.Time) {
	if w.Rate <= 0 {
		return
	}
	each := float64(time.Second) * float64(w.Sessions) / w.Rate
	pause(ctx, time.Until(began.Add(time.Duration(each*(0.5+w.rng.Float64())))))
}

// draw decides what the next turn is.
func (w *worker) draw() turn {
	if p := w.rng.Float64(); p < w.Lapses/2 {
		return (*worker).lapsing
	} else if p < w.Lapses {
		return (*worker).dying
	}
	all := 0
	for _, way := range ways {
		all += way.share
	}
	n := w.rng.IntN(all)
	for _, way := range ways {
		if n -= way.share; n < 0 {
			return way.take
		}
	}
	return (*worker).simply
}

// alive opens the session where there is none.
func (w *worker) alive() bool {
	if w.session != nil && w.session.dead.Load() {
		w.session.hush()
		w.session = nil
	}
	if w.session == nil {
		w.session = w.open(w.lease())
	}
	return w.session != nil
}

// lease is the short TTL or the long one.
func (w *worker) lease() time.Duration {
	if w.rng.IntN(2) == 0 {
		return w.ttl()
	}
	return LongLease * w.ttl()
}

// take asks for a key; every third time it waits for it.
func (w *worker) take(key string, ttl time.Duration) (lockGrant, bool) {
	wait := time.Duration(0)
	if w.rng.IntN(3) == 0 {
		wait = lockWait
	}
	g, ok := w.acquire(w.session, key, ttl, wait)
	if !ok && w.Rate <= 0 {
		pause(w.begun, time.Duration(w.rng.Int64N(int64(4*time.Millisecond)))) // as often as it can is not without a breath
	}
	return g, ok
}

// hold is the work under the lock.
func (w *worker) hold() {
	if most := time.Duration(w.HoldMillis) * time.Millisecond; most > 0 {
		pause(w.begun, most/3+time.Duration(w.rng.Int64N(int64(most-most/3))))
	}
}

// simply: take, hold, give back.
func (w *worker) simply(key string) {
	if g, ok := w.take(key, w.ttl()); ok {
		w.hold()
		w.release(w.session, g)
	}
}

// renewing: the lease is extended in between.
func (w *worker) renewing(key string) {
	if g, ok := w.take(key, w.ttl()); ok {
		w.hold()
		w.renew(w.session, g)
		w.hold()
		w.release(w.session, g)
	}
}

// again: it enters under its own grant, which mints a higher token; the first one is stale from then on.
func (w *worker) again(key string) {
	first, ok := w.take(key, w.ttl())
	if !ok {
		return
	}
	w.hold()
	second, ok := w.acquire(w.session, key, w.ttl(), 0)
	w.release(w.session, first)
	if ok {
		w.hold()
		w.release(w.session, second)
	}
}

// two: a second key while it holds the first. It never waits for it, so two of them cannot wait for one another.
func (w *worker) two(key string) {
	first, ok := w.take(key, w.ttl())
	if !ok {
		return
	}
	other := w.Keys[w.rng.IntN(len(w.Keys))]
	if second, ok := w.acquire(w.session, other, w.ttl(), 0); ok && other != key {
		w.hold()
		w.release(w.session, second)
	} else if ok {
		first = second // it was the same key, entered again
	}
	w.release(w.session, first)
}

// twice: it gives back what it has given back.
func (w *worker) twice(key string) {
	if g, ok := w.take(key, w.ttl()); ok {
		w.hold()
		w.release(w.session, g)
		w.release(w.session, g)
	}
}

// closing: the session is closed while it holds the key, and then it comes to give that back.
func (w *worker) closing(key string) {
	if g, ok := w.take(key, LongLease*w.ttl()); ok {
		w.hold()
		w.close(w.session)
		w.release(w.session, g)
		w.session = nil
	}
}

// lapsing: the lease runs out while it dawdles, and then it comes late: with a renewal, a release, or both. Every second
// time it is the quiet key, and it is late by a moment only: a lapsed grant cannot be renewed, even by 1 ms.
func (w *worker) lapsing(key string) {
	late := w.ttl() / 4
	if w.Quiet != "" && w.rng.IntN(2) == 0 {
		key, late = w.Quiet, w.ttl()/40
	}
	g, ok := w.take(key, w.ttl())
	if !ok {
		return
	}
	uses := w.rng.IntN(3)
	pause(w.begun, w.ttl()+time.Duration(w.rng.Int64N(int64(late))))
	if uses != 0 {
		w.renew(w.session, g)
	}
	if uses != 1 {
		w.release(w.session, g)
	}
}

// dying: the session falls silent with one or two keys in its hands. Mostly nobody ever comes back for them, as after a
// crash: a short session takes them with it, a long one leaves them to their leases. Now and then the client does come
// back, when all of it is over.
func (w *worker) dying(key string) {
	lease := w.ttl()
	if w.session.ttl == lease {
		lease *= LongLease
	}
	g, ok := w.take(key, lease)
	if !ok {
		return
	}
	held := []lockGrant{g}
	if other, ok := w.acquire(w.session, w.Keys[w.rng.IntN(len(w.Keys))], lease, 0); ok {
		held = append(held, other)
	}
	w.session.hush()
	if w.rng.IntN(3) == 0 {
		pause(w.begun, w.session.ttl+w.ttl()/2)
		for _, g := range held {
			w.renew(w.session, g)
			w.release(w.session, g)
		}
		w.close(w.session) // long dead, unless the end of the run came first
	}
	w.session = nil
}

// sweep asks for a key until it is granted, and gives it back.
func (w *worker) sweep(ctx context.Context, key string) {
	w.begun = ctx
	longest := LongLease * w.ttl()
	for end := time.Now().Add(longest + sweepLast); ctx.Err() == nil && time.Now().Before(end); pause(ctx, sweepEvery) {
		if !w.alive() {
			continue
		}
		if g, ok := w.acquire(w.session, key, w.ttl(), 0); ok {
			w.release(w.session, g)
			break
		}
	}
	if w.session != nil {
		w.close(w.session)
	}
}

// operator is an Operator at work.
type operator struct {
	*lockClient
	rng *rand.Rand
}

// run revokes at its rate until ctx ends.
func (o *operator) run(ctx context.Context) {
	for each := time.Duration(float64(time.Second) / o.Rate); ; {
		pause(ctx, time.Duration(float64(each)*(0.5+o.rng.Float64())))
		if ctx.Err() != nil {
			return
		}
		o.revoke(o.Keys[o.rng.IntN(len(o.Keys))])
	}
}

// revoke takes a key from whoever holds it. Every second time the operator says which grant is meant: where that is over
// by then, nothing may happen.
func (o *operator) revoke(key string) {
	var held struct {
		Held         bool  `json:"held"`
		FencingToken int64 `json:"fencingToken"`
	}
	status, err := o.call(http.MethodGet, lockPath(key, ""), 0, nil, &held)
	if err != nil || status != http.StatusOK {
		return
	}
	in := map[string]any{"operator": o.Owner, "reason": "revoked under load, on purpose"}
	if o.rng.IntN(2) == 0 && held.FencingToken > 0 {
		in["expectedToken"] = held.FencingToken
	}
	_, _ = o.call(http.MethodPost, lockPath(key, "/revoke"), 0, in, nil)
}
