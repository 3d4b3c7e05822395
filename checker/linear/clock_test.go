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
