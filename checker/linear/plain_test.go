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

// plainLock is a made-up lock of somebody else's: it has no leases, and perhaps no tokens; answers get lost, and requests whose
// answer was lost may come late or never. An operator ends what nobody gives back, and says no token.
type plainLock struct {
	*world
	*rand.Rand
	tokens bool
	lies   bool // grants what is held, now and then, and takes it back from both
	robbed string
	holder string
	token  int64
	queue  []plainCall
}

// plainCall is a request that has its effect at at.
type plainCall struct {
	proc           string
	op             contract.Op
	token          int64
	from, at, to   int64
	silent, nobody bool // nobody hears of its answer; it has no effect
}

func (l *plainLock) push(c plainCall) {
	i, _ := slices.BinarySearchFunc(l.queue, c, func(a, b plainCall) int { return cmp.Compare(a.at, b.at) })
	l.queue = slices.Insert(l.queue, i, c)
}

// asks is a client's next request. After one of which it does not know how it ended it goes on at once.
func (l *plainLock) asks(proc string, op contract.Op, token, after int64) {
	c := plainCall{proc: proc, op: op, token: token, from: after + 1 + l.Int64N(30), silent: l.IntN(12) == 0}
	if op == contract.OpRelease && !l.tokens || l.IntN(2) == 0 {
		c.token = 0
	}
	c.at = c.from + 1 + l.Int64N(8)
	c.to = c.at + 1 + l.Int64N(8)
	if c.silent {
		next := []contract.Op{contract.OpAcquire, contract.OpRelease, contract.OpRelease}[l.IntN(3)]
		l.asks(proc, next, token, c.to)
		if c.nobody = l.IntN(3) == 0; l.IntN(3) == 0 {
			c.at += l.Int64N(200)
		}
	}
	l.push(c)
}

func (l *plainLock) run(end int64) []history.Event {
	for i := range 4 {
		l.asks(fmt.Sprint("p", i), contract.OpAcquire, 0, 0)
	}
	for at := int64(500); at < end; at += 500 {
		l.push(plainCall{proc: "operator", op: contract.OpRevoke, from: at - 3, at: at, to: at + 5, silent: l.IntN(10) == 0})
	}
	for len(l.queue) > 0 {
		c := l.queue[0]
		l.queue = l.queue[1:]
		l.serve(c, end)
	}
	return heard(l.world)
}

func (l *plainLock) serve(c plainCall, end int64) {
	e := history.Event{Op: c.op, Token: c.token}
	if c.op == contract.OpAcquire {
		e.Token = 0
	}
	next, token := contract.OpAcquire, c.token
	switch free := l.holder == ""; {
	case c.nobody:
	case c.op == contract.OpRevoke:
		l.holder, e.Status, e.Res = "", 200, `{}`
	case c.op == contract.OpRelease && l.holder == c.proc && (c.token == 0 || c.token == l.token):
		l.holder, e.Status = "", 204
	case c.op == contract.OpRelease && l.robbed == c.proc:
		l.robbed, e.Status = "", 204
	case c.op == contract.OpRelease:
		e.Status, e.Code = 409, contract.LockLost
	case free || l.lies && l.IntN(4) == 0 && l.robbed == "":
		if !free && l.holder != c.proc {
			l.robbed = l.holder
		}
		l.holder, e.Status = c.proc, 200
		if l.tokens {
			l.token++
			e.Granted, token = l.token, l.token
		}
		next = contract.OpRelease
	default:
		e.Status, e.Code = 409, []contract.Code{contract.LockContended, LockHeld}[l.IntN(2)]
		if l.holder == c.proc {
			e.Code, next = LockHeld, contract.OpRelease
		}
	}
	if c.silent {
		l.call(c.from, 0, c.proc, history.Event{Op: c.op, Token: e.Token})
		return
	}
	l.call(c.from, c.to, c.proc, e)
	if c.to < end && c.proc != "operator" {
		l.asks(c.proc, next, token, c.to)
	}
}

func TestAPlainLockThatIsRightIsNeverAccused(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		var all Counts
		for seed := range uint64(50) {
			l := &plainLock{world: newWorld(), Rand: rand.New(rand.NewPCG(seed, 21)), tokens: tokens}
			f := judge(t, l.run(2000), Budget{Time: time.Minute})[key]
			if f.Sentence != "" || f.Open != "" {
				t.Fatalf("tokens %t, seed %d: %+v", tokens, seed, f)
			}
			all.add(f.Counts)
		}
		if all.Contended < 500 || all.Ambiguous < 500 || all.Revokes < 50 {
			t.Errorf("%+v test little", all)
		}
	}
}

func TestAPlainLockThatGrantsWhatIsHeldIsAccused(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		caught := 0
		for seed := range uint64(20) {
			l := &plainLock{world: newWorld(), Rand: rand.New(rand.NewPCG(seed, 21)), tokens: tokens, lies: true}
			if f := judge(t, l.run(2000), Budget{Time: time.Minute})[key]; f.Sentence != "" {
				caught++
			}
		}
		if caught < 15 {
			t.Errorf("tokens %t: it is seen in %d of 20 runs", tokens, caught)
		}
	}
}

// However many calls have no answer, what cannot be is found behind them, and soon.
func TestALongHistoryWithManyCallsWithoutAnAnswerIsDecided(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		l := &plainLock{world: newWorld(), Rand: rand.New(rand.NewPCG(1, 21)), tokens: tokens}
		l.run(40_000)
		decided := func(want string) {
			t.Helper()
			f := judge(t, heard(l.world), Budget{Time: 20 * time.Second})[key]
			if f.Sentence != want || f.Open != "" || f.Counts.Ambiguous < 500 || f.Segments < 1500 {
				t.Errorf("tokens %t: %+v", tokens, f)
			}
		}
		decided("")
		for i := range int64(12) { // more than the eight operators whom nobody answered can have ended
			l.granted(41_000+100*i, 41_010+100*i, fmt.Sprint("q", i), 0, 0)
		}
		decided("q9 was granted key accounts/7, although q8 held it")
	}
}
