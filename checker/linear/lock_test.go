package linear

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// bug is what a made-up lock does wrongly.
type bug int

const (
	none         bug = iota
	stealsEarly      // a lease is taken over before it has run out
	renewsLapsed     // a renewal does not ask whether the lease has run out
	releasesAny      // a release does not compare tokens
	keepsToken       // a take-over keeps the token
	refusesFree      // an acquire is refused now and then although the key is free
	losesHeld        // a renewal is told now and then that its grant is lost
	grantsBack       // tokens are drawn before the wait for the key, so that they come in the wrong order
	bugs
)

// lockWorld runs a made-up lock on PostgreSQL under several clients, with everything that may happen to it: a clock that
// is put forward, statements that wait, answers that get lost, effects that come after their answer said nothing,
// commits that are recorded late.
type lockWorld struct {
	*world
	*rand.Rand
	bug   bug
	row   *lockRow
	token int64
	queue []*lockCall
	now   int64 // ms
	steps int64 // when the clock of lockdb is put forward, ms
	begun int64 // when what happens now began, ms: the statement, where it is one
}

type lockRow struct {
	owner, session    string
	token             int64
	acquired, expires int64 // lockdb's clock, ms
}

// lockCall is a request: forwarded at from, its statement begins at now, takes effect at at and is answered at to.
type lockCall struct {
	proc              string
	op                contract.Op
	token             int64
	from, now, at, to int64
	wait              int64 // acquire: until when it tries again
	silent            bool  // nobody hears of its answer
	refused           bool  // or it is told 503
	drawn             int64
}

const ttl = 120 // ms

func (l *lockWorld) clock(ms int64) int64 {
	if ms >= l.steps {
		return ms + 70
	}
	return ms
}

// next is a client's next request, after its last was answered at after.
func (l *lockWorld) next(proc string, token, after int64) {
	c := &lockCall{proc: proc, token: token, from: after + l.Int64N(40)}
	if l.IntN(8) == 0 {
		c.from += 2 * ttl // it comes late
	}
	switch n := l.IntN(20); {
	case token == 0 || n < 5:
		c.op = contract.OpAcquire
		if l.IntN(2) == 0 {
			c.wait = c.from + l.Int64N(200)
		}
	case n < 13:
		c.op = contract.OpRenew
	case n < 19:
		c.op = contract.OpRelease
	default:
		c.op = contract.OpRevoke
	}
	c.silent, c.refused = l.IntN(12) == 0, l.IntN(12) == 0
	c.now = c.from + l.Int64N(8)
	c.at = c.now + l.Int64N(4)
	if l.IntN(15) == 0 {
		c.at += l.Int64N(60) // it waits
	}
	c.to = c.at + l.Int64N(10)
	if c.refused && l.IntN(2) == 0 {
		c.to = c.from + l.Int64N(c.at-c.from+1) // it takes effect after its client was told that nobody knows
	}
	l.push(c)
}

func (l *lockWorld) push(c *lockCall) {
	c.at = max(c.at, l.now)
	i, _ := slices.BinarySearchFunc(l.queue, c, func(a, b *lockCall) int { return cmp.Compare(a.at, b.at) })
	l.queue = slices.Insert(l.queue, i, c)
}

// run lets everything happen until end.
func (l *lockWorld) run(end int64) []history.Event {
	for i := range 3 {
		l.next(fmt.Sprintf("client-%d", i), 0, 0)
	}
	for i := range int64(12) {
		l.push(&lockCall{op: contract.OpCloseSession, at: end * i / 12})
		l.push(&lockCall{op: contract.OpUnknown, at: end*i/12 + l.Int64N(50)}) // the reaper
	}
	for len(l.queue) > 0 {
		c := l.queue[0]
		if l.etcd && l.row != nil && l.row.expires+2 <= c.at {
			l.begun = l.row.expires + 2
			l.ends(l.begun) // the store ends the lease itself
		}
		l.queue, l.now, l.begun = l.queue[1:], c.at, cmp.Or(c.now, c.at)
		switch c.op {
		case contract.OpCloseSession:
			if l.row != nil && l.IntN(3) == 0 {
				l.ends(c.at, history.Change{Table: "lock_session", Kind: history.Delete, Old: map[string]string{"session_id": l.row.session}})
			}
		case contract.OpUnknown:
			if l.row != nil && !l.etcd && l.row.expires <= l.clock(c.at) {
				l.ends(c.at)
			}
		default:
			l.serve(c, end)
		}
	}
	return l.recorded()
}

// serve lets c take effect, answers it and has its client go on.
func (l *lockWorld) serve(c *lockCall, end int64) {
	status, code, granted := l.effect(c)
	if code == contract.LockContended && c.at < c.wait {
		c.now = c.at + 1 + l.Int64N(10)
		c.at = c.now + l.Int64N(4)
		c.to = max(c.to, c.at+l.Int64N(10))
		l.push(c)
		return
	}
	if c.refused {
		status, code, granted = 503, contract.NotLeader, 0
	} else {
		c.to = max(c.to, c.at)
	}
	e := history.Event{Op: c.op, Token: c.token, Status: status, Code: code, Granted: granted}
	if c.op == contract.OpAcquire {
		e.Token = 0
		if granted > 0 {
			e.Res = fmt.Sprintf(`{"acquiredAt":%q}`, clockAt(l.clock(c.now)).Format(time.RFC3339Nano))
		}
	}
	if c.op == contract.OpRevoke && status == 200 {
		e.Res = fmt.Sprintf(`{"revokedToken":%d,"newTokenFloor":%d}`, granted, l.token)
		e.Granted = 0
	}
	to := c.to
	if c.silent {
		to = 0
	}
	l.call(c.from, to, c.proc, e)
	token := c.token
	if c.op == contract.OpAcquire && !c.silent && granted > 0 {
		token = granted
	}
	if c.to < end {
		l.next(c.proc, token, c.to)
	}
}

// effect is what the lock does at c.at; granted is the token of a grant, or the one that was revoked.
func (l *lockWorld) effect(c *lockCall) (status int, code contract.Code, granted int64) {
	now, live := l.clock(c.now), l.row != nil && (l.etcd || l.row.expires > l.clock(c.now))
	if l.etcd {
		now = c.at
	}
	mine := l.row != nil && l.row.token == c.token
	switch c.op {
	case contract.OpAcquire:
		return l.acquire(c, now)
	case contract.OpRenew:
		if !mine || !live && l.bug != renewsLapsed || l.bug == losesHeld && l.IntN(2) == 0 {
			return 409, contract.LockLost, 0
		}
		l.row.expires = now + ttl
		if !l.etcd {
			l.extends(c.at)
		}
		return 200, "", c.token
	case contract.OpRelease:
		if !mine && (l.bug != releasesAny || l.row == nil) {
			return 409, contract.LockLost, 0
		}
		l.ends(c.at)
		return 204, "", 0
	default:
		if !live {
			return 404, contract.NotFound, 0
		}
		l.token++
		granted = l.row.token
		l.ends(c.at, l.revocation(granted, l.token))
		return 200, "", granted
	}
}

func (l *lockWorld) acquire(c *lockCall, now int64) (int, contract.Code, int64) {
	session := "session-" + c.proc
	r := l.row
	early := int64(0)
	if l.bug == stealsEarly {
		early = 40
	}
	if c.drawn == 0 {
		l.token++
		c.drawn = l.token // on the first attempt
	}
	if r != nil && (l.etcd && early == 0 || r.expires > now+early) && r.session != session || l.bug == refusesFree && r == nil && l.IntN(8) == 0 {
		return 409, contract.LockContended, 0
	}
	l.token++
	token := l.token
	switch {
	case l.bug == grantsBack:
		token = c.drawn
	case l.bug == keepsToken && r != nil:
		token = r.token
	}
	l.row = &lockRow{c.proc, session, token, now, now + ttl}
	l.puts(c.at, c.proc, token)
	if !l.etcd && l.row.expires <= l.clock(c.at) {
		l.ends(c.at) // it died while it waited
		return 409, contract.LockContended, 0
	}
	return 200, "", token
}

// puts commits the row as it stands.
func (l *lockWorld) puts(at int64, _ string, token int64) {
	row := l.columns()
	c := history.Change{Table: "lock_entry", Kind: history.Insert, New: row}
	if old := l.rows[l.key]; old != nil {
		c.Kind, c.Old = history.Update, old
	}
	l.rows[l.key] = row
	l.commits(at, c)
}

func (l *lockWorld) columns() map[string]string {
	r := l.row
	row := map[string]string{"lock_key": l.key, "owner_id": r.owner, "session_id": r.session, "fencing_token": fmt.Sprint(r.token),
		"ttl_ms": fmt.Sprint(ttl)}
	if !l.etcd {
		row["acquired_at"], row["expires_at"] = column(r.acquired), column(r.expires)
	}
	return row
}

func (l *lockWorld) extends(at int64) {
	old, row := l.rows[l.key], l.columns()
	l.rows[l.key] = row
	l.commits(at, history.Change{Table: "lock_entry", Kind: history.Update, Old: old, New: row})
}

func (l *lockWorld) ends(at int64, with ...history.Change) {
	old := l.rows[l.key]
	delete(l.rows, l.key)
	l.row = nil
	l.commits(at, append([]history.Change{{Table: "lock_entry", Kind: history.Delete, Old: old}}, with...)...)
}

func (l *lockWorld) commits(at int64, changes ...history.Change) {
	l.commit(at, changes...)
	l.events[len(l.events)-1].Call = l.begun
	if !l.etcd {
		l.events[len(l.events)-1].Committed = clockAt(l.clock(at)).UnixMicro()
	}
}

func lockRun(seed uint64, b bug, etcd bool) []history.Event {
	l := &lockWorld{world: newWorld(), Rand: rand.New(rand.NewPCG(seed, 11)), bug: b}
	l.etcd = etcd
	l.steps = l.Int64N(6000)
	return l.run(5000)
}

var backends = map[string]bool{"pg": false, "etcd": true}

func TestALockThatIsRightIsNeverAccused(t *testing.T) {
	for name, etcd := range backends {
		t.Run(name, func(t *testing.T) {
			var all Counts
			for seed := range uint64(60) {
				f := judge(t, lockRun(seed, none, etcd), Budget{Time: time.Minute})[key]
				if f.Sentence != "" || f.Open != "" || f.Twice {
					t.Fatalf("seed %d: %+v", seed, f)
				}
				all.add(f.Counts)
			}
			for what, n := range map[string]int64{"contended": all.Contended, "ambiguous": all.Ambiguous, "unheard": all.Unheard,
				"expiries": all.Expiries, "revokes": all.Revokes, "sweeps": all.Sweeps} {
				if n < 100 {
					t.Errorf("%d %s test little", n, what)
				}
			}
		})
	}
}

func TestALockThatIsWrongIsAccused(t *testing.T) {
	for name, etcd := range backends {
		for b := none + 1; b < bugs; b++ {
			if etcd && (b == renewsLapsed || b == keepsToken) {
				continue // there what has lapsed is gone, and a token is a revision
			}
			caught := 0
			for seed := range uint64(10) {
				if f := judge(t, lockRun(seed, b, etcd), Budget{Time: time.Minute})[key]; f.Sentence != "" {
					caught++
				}
			}
			if caught == 0 {
				t.Errorf("%s: bug %d is seen in none of 10 runs", name, b)
			}
		}
	}
}
