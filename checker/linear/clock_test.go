package linear

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// A clock that keeps only what matters says the same as a look at all readings.
func TestAClockKeepsOfManyReadingsWhatBoundsItsTimes(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		var all []reading
		var text []byte
		var back stepsBack
		ahead, to := int64(5000), int64(0)
		for range 60 {
			if r.IntN(12) == 0 {
				ahead -= r.Int64N(40) // somebody sets the clock
			}
			to += r.Int64N(8)
			if r.IntN(30) == 0 {
				to += widest
			}
			from := to - r.Int64N(20)
			x := reading{(from+to)/2 + ahead, from, to}
			all, text = append(all, x), x.append(text)
			back.take(x)
		}
		times := []int64{}
		for range 20 {
			times = append(times, all[r.IntN(len(all))].At+r.Int64N(7)-3)
		}
		c, err := readClock(bytes.NewReader(text), times, back.steps)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range times {
			lo, hi, twice := int64(math.MinInt64), int64(forever), false
			for _, x := range all {
				if x.At < at {
					lo = max(lo, x.From)
				} else {
					hi = min(hi, x.To)
				}
				for _, y := range all {
					twice = twice || x.To < y.From && y.At <= at+2 && at-2 <= x.At && y.At < x.At
				}
			}
			if l, h := c.reaches(at); l != lo || h != hi || c.twice(at-2, at+2) != twice {
				t.Fatalf("seed %d: the clock shows %d from %d to %d, twice: %t; want %d, %d, %t", seed, at, l, h, c.twice(at-2, at+2), lo, hi, twice)
			}
		}
	}
}

func TestReadingsOfTheClockGoThroughFilesNotThroughMemory(t *testing.T) {
	for name, etcd := range backends {
		t.Run(name, func(t *testing.T) {
			s, err := newSpool()
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}()
			w := newWorld()
			w.etcd = etcd
			w.acquires(10, 20, "ann", 1)
			x, n := newExtract(s, false), int64(0)
			observe := func(e history.Event) {
				if n++; e.I == 0 {
					e.I = n
				}
				if err := x.observe(&e); err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range w.events {
				observe(e)
			}
			const beats = 100_000
			for i := range int64(beats) { // one every ms
				e := history.Event{W: history.Wiretap, Op: contract.OpHeartbeat, Call: 100 + i, Stage: history.Forwarded, T: (100 + i) * 1e6}
				observe(e)
				e.Stage, e.Type, e.Res = history.Answered, contract.OK, fmt.Sprintf(`{"serverTime":%q}`, clockAt(100+i).Format(time.RFC3339Nano))
				observe(e)
			}
			if err := x.finish(); err != nil {
				t.Fatal(err)
			}
			shared, err := writeFrame(&x.frame)
			if err != nil {
				t.Fatal(err)
			}
			if len(shared) > 4096 || len(x.back.highs) > int(widest/1e6)+1 || s.held > 2*spoolBuffer {
				t.Errorf("%d bytes go to every key, %d highs and %d bytes are kept", len(shared), len(x.back.highs), s.held)
			}
			in, size := s.readings()
			kept, err := io.Copy(io.Discard, in)
			if err != nil || kept != size {
				t.Fatalf("%d of %d bytes, %v", kept, size, err)
			}
			if etcd && size > readingSize || !etcd && size < beats*readingSize {
				t.Errorf("%d bytes of readings", size)
			}
		})
	}
}

func TestEveryRunOfTheLockWorkloadIsJudgedByLINWhateverItsNemesisIsCalled(t *testing.T) {
	for _, nemesis := range []string{"pause", "clock", "pause,clock", "script"} {
		for _, backend := range []string{"pg", "etcd"} {
			if !Applies(verdict.Settings{Workload: "lock", Backend: backend, Nemesis: nemesis}) || Applies(verdict.Settings{Workload: "payout", Backend: backend, Nemesis: nemesis}) {
				t.Errorf("on %s under %s", backend, nemesis)
			}
		}
	}
}

// moves puts the clock of a process by ahead: the nemesis says so.
func (w *world) moves(at int64, target contract.Process) {
	w.events = append(w.events, history.Event{W: history.Nemesis, Type: contract.Info, Proc: "nemesis", Op: "clock", Phase: "inject", Target: string(target), T: at * 1e6})
}

// A lease that comes back to life has no place in the specification; what was answered before the clock was moved has.
func TestAHistoryIsJudgedUntilTheLockStoresClockIsMoved(t *testing.T) {
	twoHolders := func(w *world, at int64) {
		w.acquires(at, at+20, "c", 21)
		w.acquires(at+30, at+50, "d", 22)
	}
	for _, c := range []struct {
		name  string
		story func(w *world)
		found bool
	}{
		{"two holders before", func(w *world) { twoHolders(w, 200); w.moves(300, contract.LockDB) }, true},
		{"two holders after", func(w *world) { w.moves(190, contract.LockDB); twoHolders(w, 200) }, false},
		{"two holders after, and the clock of somebody else was moved", func(w *world) { w.moves(190, contract.LockServer); twoHolders(w, 200) }, true},
		{"the second one is answered just before", func(w *world) { w.moves(275, contract.LockDB); twoHolders(w, 200) }, true},
		{"the second one is answered only afterwards, and may never have been granted anything", func(w *world) { w.moves(249, contract.LockDB); twoHolders(w, 200) }, false},
		{"a release whose commit is told late, and the next grant", func(w *world) {
			w.acquires(200, 220, "c", 21)
			w.released(230, 240, "c", 21)
			w.removes(252) // its watermark has not come
			w.moves(251, contract.LockDB)
			w.granted(244, 248, "d", 22, 246)
			w.puts(253, "d", 22)
		}, false},
		{"what is asked for and committed just after the clock was moved is asked for all the same", func(w *world) {
			w.acquires(200, 220, "c", 21)
			w.moves(221, contract.LockDB)
			w.releases(222, 226, "c", 21)
			w.acquires(225, 228, "d", 22)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.acquires(10, 30, "a", 7)
			w.releases(40, 60, "a", 7)
			c.story(w)
			if f := find(t, w); (f.Sentence != "") != c.found || f.Open != "" || f.Twice {
				t.Errorf("found %q, left open %q, clock put back %t", f.Sentence, f.Open, f.Twice)
			}
		})
	}
}

func TestACommitByTheMovedClockIsLeftOut(t *testing.T) {
	w := newWorld()
	w.acquires(10, 30, "a", 7)
	w.moves(31, contract.LockDB)
	w.acquires(32, 36, "b", 9) // over the live lease of a, which is long over by a clock that is an hour ahead
	w.events[len(w.events)-1].Committed += int64(time.Hour / time.Microsecond)
	f := fine(t, w)
	if f.Counts.Takeovers != 0 {
		t.Errorf("%d grants were taken over", f.Counts.Takeovers)
	}
}

// A commit whose time is out of step with the one before it may be by the moved clock, or be told late: the log is read no further then,
// and what it is not known to reach is not judged by it.
func TestAWitnessThatLagsWhenTheClockIsMovedAccusesNobody(t *testing.T) {
	const hour = int64(time.Hour / time.Microsecond)
	moved := func(by int64) func(w *world) { // from behind the latest watermark on
		return func(w *world) {
			w.quiet = []span{{after: 230, before: 300}}
			w.acquires(200, 220, "c", 21)
			w.acquires(230, 250, "d", 22)
			w.moves(275, contract.LockDB)
			w.extends(280)
			w.events[len(w.events)-1].Committed += by
		}
	}
	passedOn := func(lag int64) func(w *world) { // by the end of a session, which is in the log alone
		return func(w *world) {
			w.acquires(200, 220, "c", 21)
			w.stalls = []span{{after: 230, before: 240 + lag}}
			w.endsSession(240, "c")
			w.acquires(240, 260, "d", 22)
			w.moves(300, contract.LockDB)
		}
	}
	for _, c := range []struct {
		name  string
		story func(w *world)
		found bool
		late  int64
	}{
		{"it lags a little", passedOn(200), false, 0},
		{"it lags more than a clock may be astray", passedOn(400), false, 1},
		{"it has lagged, and catches up", func(w *world) {
			w.stalls = []span{{after: 205, before: 610}, {after: 615, before: 650}}
			w.acquires(200, 220, "c", 21)
			w.endsSession(620, "c")
			w.acquires(620, 624, "d", 22)
			w.moves(645, contract.LockDB)
		}, false, 1},
		{"an answer at the very time that a watermark covers", func(w *world) {
			w.acquires(200, 220, "c", 21)
			w.endsSession(250, "c")
			w.granted(240, 250, "d", 22, 250)
			w.puts(250, "d", 22)
			for i := range w.events { // the watermark does not have what is committed at 250
				if e := &w.events[i]; e.W == history.LockDB && e.T == 250e6 {
					e.T = 600e6
				}
			}
			w.stalls = []span{{after: 250, before: 600}}
			w.moves(300, contract.LockDB)
		}, false, 1},
		{"two holders before what it has told", func(w *world) {
			w.acquires(180, 190, "b", 20)
			passedOn(400)(w)
		}, true, 1},
		{"two holders, and the clock shows an hour more: all that came before has been told", moved(hour), true, 0},
		{"two holders, and the clock shows an hour less: all that came before has been told", moved(-hour), true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.acquires(10, 30, "a", 7)
			w.releases(40, 60, "a", 7)
			c.story(w)
			if f := find(t, w); (f.Sentence != "") != c.found || f.Open != "" || f.Twice || f.Counts.Late != c.late {
				t.Errorf("found %q, left open %q, clock put back %t, %d answers came too late", f.Sentence, f.Open, f.Twice, f.Counts.Late)
			}
		})
	}
}
