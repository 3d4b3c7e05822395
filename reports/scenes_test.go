package reports

import (
	"os"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// scene is a history with what there is to say about it.
type scene struct {
	events []history.Event
	lates  []late
	posted int64
	rail   int64 // stale writes refused there
	row    int64
}

// play runs accounts side by side until end; every nth payout of an account is one whose holder is stopped.
func play(seed uint64, railOff bool, accounts, nth int, end time.Duration) scene {
	w := newWorld(seed, railOff)
	var s scene
	for _, p := range []struct {
		at   int64
		name string
	}{{0, "boot"}, {900 * ms, "seed"}, {1200 * ms, "drive"}, {int64(end), "drain"}} {
		w.add(p.at, history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpPhase, Msg: p.name})
	}
	type lane struct {
		account string
		t       int64
		n       int
	}
	lanes := make([]*lane, accounts)
	for i := range lanes {
		lanes[i] = &lane{account: w.id(), t: 1200*ms + int64(w.rng.IntN(400))*ms, n: w.rng.IntN(nth)}
		w.balance[lanes[i].account] = 10_000_000
	}
	stopped := map[contract.Process]int64{} // until when
	free := func(t int64, not contract.Process) contract.Process {
		for {
			if e := contract.Executor(1 + w.rng.IntN(6)); e != not && stopped[e] < t {
				return e
			}
		}
	}
	for { // always the account that is furthest behind, so that tokens grow with time
		sort.Slice(lanes, func(a, b int) bool { return lanes[a].t < lanes[b].t })
		l := lanes[0]
		if l.t > int64(end) {
			break
		}
		l.n++
		a, down := free(l.t, ""), 0
		for _, until := range stopped {
			if until > l.t {
				down++
			}
		}
		j := w.newJob(l.t-40*ms, l.account)
		if l.n%nth == 0 && down < 2 {
			b := free(l.t, a)
			stopped[a], stopped[b] = l.t+2000*ms, l.t+2000*ms
			atRail := len(s.lates)%2 == 0
			x, done := w.takeover(l.t, a, b, j, atRail)
			s.lates = append(s.lates, x)
			if atRail {
				s.rail++
			} else {
				s.row++
			}
			l.t = done + int64(150+w.rng.IntN(200))*ms
		} else {
			tok := w.acquire(l.t, a, l.account, false)
			done := w.calm(l.t+10*ms, a, j, tok)
			w.release(done, a, l.account, tok, false)
			l.t = done + int64(120+w.rng.IntN(400))*ms
		}
		s.posted++
	}
	s.events = w.finish()
	return s
}

// store writes events as the history of a run.
func store(t testing.TB, dir string, events []history.Event) {
	t.Helper()
	h := history.Header{RunID: filepath.Base(dir), Seed: 7, Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writers := map[history.Witness]*history.Writer{}
	for _, w := range history.Witnesses() {
		f, err := os.Create(filepath.Join(dir, string(w)+".ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		if writers[w], err = history.NewWriter(f, w, h); err != nil {
			t.Fatal(err)
		}
	}
	for i := range events {
		if err := writers[events[i].W].Write(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range writers {
		if err := w.Complete(); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}
