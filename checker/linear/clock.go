package linear

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"time"
)

// reading is one look at the lock store's clock: it showed At (microseconds since 1970) at some moment from From to To of
// the harness's clock.
type reading struct{ At, From, To int64 }

const (
	readingSize = 24 // bytes, as it is written down
	// widest is how long a reading may have taken. One that took longer says next to nothing, and is left out.
	widest = int64(time.Minute)
)

// append adds r to b as it is written down.
func (r reading) append(b []byte) []byte {
	for _, n := range []int64{r.At, r.From, r.To} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// clock says what is known about the moments at which the lock store's own clock came to some times. Each reading was
// taken while the server had the request. As long as that clock never goes back, it comes to a time after every moment at
// which it was seen to show less, and before every one at which it showed as much. Of the readings, however many there
// are, it keeps no more than that.
type clock struct {
	times []int64 // that matter, sorted
	lo    []int64 // by time: the latest From of a reading that showed less
	hi    []int64 // by time: the earliest To of one that showed as much
	steps []step
}

// readClock reads readings from r, as far as they say something about times.
func readClock(r io.Reader, times []int64, steps []step) (*clock, error) {
	times = slices.Compact(slices.Sorted(slices.Values(times)))
	c := &clock{times: times, lo: make([]int64, len(times)), hi: make([]int64, len(times)), steps: steps}
	for i := range times {
		c.lo[i], c.hi[i] = math.MinInt64, forever
	}
	in := bufio.NewReader(r)
	for {
		var b [readingSize]byte
		if _, err := io.ReadFull(in, b[:]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the lock store's clock: %w", err)
		}
		n := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[i:])) }
		c.take(reading{n(0), n(8), n(16)})
	}
	for i := 1; i < len(times); i++ {
		c.lo[i] = max(c.lo[i], c.lo[i-1])
	}
	for i := len(times) - 2; i >= 0; i-- {
		c.hi[i] = min(c.hi[i], c.hi[i+1])
	}
	return c, nil
}

// take notes r with the first time after what it showed, and with the last one before.
func (c *clock) take(r reading) {
	i := sort.Search(len(c.times), func(i int) bool { return c.times[i] > r.At })
	if i < len(c.times) {
		c.lo[i] = max(c.lo[i], r.From)
	}
	if i > 0 {
		c.hi[i-1] = min(c.hi[i-1], r.To)
	}
}

// reaches bounds the moment at which the clock came to show at: not before lo, and at hi at the latest.
func (c *clock) reaches(at int64) (lo, hi int64) {
	i, known := slices.BinarySearch(c.times, at)
	if !known {
		return math.MinInt64, forever
	}
	return c.lo[i], c.hi[i]
}

// twice tells whether the clock was put back over some time from from to to.
func (c *clock) twice(from, to int64) bool {
	return slices.ContainsFunc(c.steps, func(s step) bool { return from <= s.To && s.From <= to })
}

// step is a time that the clock has shown twice, because it was put back.
type step struct{ From, To int64 }

// stepsBack finds where a reading that certainly came later shows less.
type stepsBack struct {
	steps  []step
	highs  []high // of the last while, both ever higher
	before int64  // the highest reading before them, 0 for none
}

// high is the highest that the clock had shown by a moment.
type high struct{ by, at int64 }

// take takes the next reading, in the order in which they ended.
func (s *stepsBack) take(r reading) {
	old := sort.Search(len(s.highs), func(i int) bool { return s.highs[i].by >= r.To-widest })
	if old > 0 { // no reading to come began before them
		s.before = s.highs[old-1].at
		s.highs = slices.Delete(s.highs, 0, old)
	}
	top := s.before
	if i := sort.Search(len(s.highs), func(i int) bool { return s.highs[i].by >= r.From }); i > 0 {
		top = s.highs[i-1].at
	}
	if r.At < top {
		s.back(step{r.At, top})
	}
	if n := len(s.highs); n == 0 && r.At > s.before || n > 0 && r.At > s.highs[n-1].at {
		s.highs = append(s.highs, high{r.To, r.At})
	}
}

// back adds a step, to the last one where they meet.
func (s *stepsBack) back(b step) {
	if n := len(s.steps); n > 0 && b.From <= s.steps[n-1].To && s.steps[n-1].From <= b.To {
		last := &s.steps[n-1]
		last.From, last.To = min(last.From, b.From), max(last.To, b.To)
		return
	}
	s.steps = append(s.steps, b)
}
