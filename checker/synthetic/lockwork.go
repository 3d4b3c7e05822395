package synthetic

import (
	"fmt"
	"slices"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// lockWorkload is the workload without payouts: clients that take keys and give them back, each in its way.
const lockWorkload = "lock"

// lockHarness is the course of a run of locks.
func (w *world) lockHarness(t *task) {
	w.phase("boot")
	w.spawn(nil, w.watermarks)
	w.spawn(nil, w.alive)
	w.spawn(nil, w.locks.reap)
	t.sleep(w.between(100*time.Millisecond, 300*time.Millisecond))
	w.phase("seed")
	w.phase("drive")
	w.crowd(t)
	for w.files.last < int64(w.o.Events)/2 {
		t.sleep(20 * time.Millisecond)
	}
	if w.o.Restore {
		w.restore(t)
		w.crowd(t)
	}
	for w.files.last < int64(w.o.Events) || !w.plotted {
		if !w.plotted && w.o.Violation != "" {
			newPlot(t).run()
			w.plotted = true
		}
		t.sleep(20 * time.Millisecond)
	}
	w.disperse(t)
	w.phase("drain")
	t.sleep(w.ttl + w.locks.lapse())
	w.phase("collect")
	w.lastWatermarks()
	w.over = true
}

// crowd lets clients and an operator begin.
func (w *world) crowd(t *task) {
	w.driving = true
	for n := range w.o.Executors {
		x := w.newClient(contract.LockClient(n + 1))
		w.spawn(x.proc, x.turns)
	}
	w.spawn(nil, w.newClient(contract.LockOperator).revoke)
}

// disperse lets them end, and waits for it.
func (w *world) disperse(t *task) {
	w.driving = false
	for slices.ContainsFunc(w.clients, func(x *client) bool { return x.working > 0 }) {
		t.sleep(10 * time.Millisecond)
	}
	w.clients = nil
}

func (w *world) lockKey() string { return fmt.Sprintf("key-%d", w.rng.IntN(w.o.Accounts)+1) }

// turns takes a key and gives it back, again and again.
func (x *client) turns(t *task) {
	x.working++
	for x.w.driving {
		x.turn(t, x.w.lockKey())
		t.sleep(x.w.between(5*time.Millisecond, 60*time.Millisecond))
	}
	x.leave(t)
	x.working--
}

// turn is one: mostly as it should be, now and then as it should not.
func (x *client) turn(t *task, key string) {
	w := x.w
	l := x.acquireKey(t, key, w.lostAnswer)
	if l == nil {
		return
	}
	switch n := w.rng.IntN(100); {
	case n < 10: // once more, so that the first grant is over
		if again := x.acquireKey(t, key); again != nil {
			x.release(t, l)
			l = again
		}
	case n < 17: // the lease runs out, and its release comes too late
		t.sleep(w.ttl + w.locks.lapse() + w.between(0, 200*time.Millisecond))
	case n < 22: // the session dies, and the grant with it
		x.session.over, x.id = true, ""
		t.sleep(w.ttl + w.locks.lapse())
		return
	default:
		x.keep(l)
		t.sleep(w.between(20*time.Millisecond, 400*time.Millisecond))
	}
	x.release(t, l)
}

// lostAnswer cuts a call off now and then.
func (w *world) lostAnswer(c *call) {
	if w.chance(40) {
		c.cut, c.cutBefore = true, w.chance(500)
	}
}

// revoke is the operator, who takes a grant away now and then.
func (x *client) revoke(t *task) {
	x.working++
	for x.w.driving {
		t.sleep(x.w.between(300*time.Millisecond, 700*time.Millisecond))
		if x.w.driving {
			x.call(t, contract.LockServer, history.Event{Op: contract.OpRevoke, Key: x.w.lockKey()},
				`{"operator":"operator","reason":"it has it for too long"}`, x.w.locks.revoke)
		}
	}
	x.working--
}

// backup is lockdb as it was.
type backup struct {
	sessions []*session
	entries  map[string]*entry
}

// restore puts lockdb back to an older backup, by the book: the clients are cut, the longest lease is waited out, and the
// sequence of tokens is put above all that were ever granted. Where the run is unguarded it is not: then it repeats tokens.
func (w *world) restore(t *task) {
	l := w.locks.(*locks)
	for len(l.entries) == 0 {
		t.sleep(10 * time.Millisecond)
	}
	was, token := l.backup(), l.token
	t.sleep(500 * time.Millisecond)
	w.disperse(t)
	w.watermark(history.LockDB, contract.LockDB)
	t.sleep(w.ttl + 200*time.Millisecond)
	l.epoch++
	l.sessions, l.entries = was.sessions, was.entries
	l.commits = commits{800, 0x1000000}
	if w.o.Unguarded {
		l.token = token
	} else {
		l.token += 1000
	}
	var changes []history.Change
	for _, s := range l.sessions {
		changes = append(changes, inserted("lock_session", s.row))
	}
	for _, k := range l.keys {
		if e := l.entries[k]; e != nil {
			changes = append(changes, inserted("lock_entry", e.row))
		}
	}
	w.see(history.LockDB, history.Event{Type: contract.OK, Proc: contract.LockDB, Op: history.OpCommit, LSN: "0/1000000", Epoch: l.epoch, Changes: changes, Msg: snapshotMsg})
	t.sleep(300 * time.Millisecond)
}

// snapshotMsg is how a witness marks the rows that were there when it was attached.
const snapshotMsg = "snapshot"

func (l *locks) backup() backup {
	b := backup{entries: map[string]*entry{}}
	same := map[*session]*session{}
	for _, s := range l.sessions {
		c := *s
		same[s] = &c
		b.sessions = append(b.sessions, &c)
	}
	for k, e := range l.entries {
		c := *e
		c.session = same[e.session]
		b.entries[k] = &c
	}
	return b
}
