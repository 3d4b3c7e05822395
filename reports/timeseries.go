package reports

import "math/bits"

// bucketsWanted bounds the points of a chart: more than this nobody can see.
const bucketsWanted = 120

// niceBuckets are the lengths of a bucket, in microseconds, that a reader can calculate with.
var niceBuckets = []int64{100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000,
	60_000_000, 120_000_000, 300_000_000, 600_000_000, 1_800_000_000, 3_600_000_000}

// counters gathers the series of a run.
type counters struct {
	bucket  int64
	posted  []int64
	refused []int64
	calls   []int64
	delays  []histogram
}

func newCounters(span int64) *counters {
	bucket := niceBuckets[len(niceBuckets)-1]
	for _, b := range niceBuckets {
		if span/b < bucketsWanted {
			bucket = b
			break
		}
	}
	n := int(span/bucket) + 1
	return &counters{bucket: bucket, posted: make([]int64, n), refused: make([]int64, n), calls: make([]int64, n), delays: make([]histogram, n)}
}

// at is the bucket of a time in microseconds.
func (c *counters) at(us int64) int { return int(min(max(us/c.bucket, 0), int64(len(c.posted)-1))) }

func (c *counters) series() series {
	s := series{Bucket: c.bucket, Posted: c.posted, Refused: c.refused, Calls: c.calls}
	for i := range c.delays {
		s.P50 = append(s.P50, c.delays[i].quantile(0.50))
		s.P99 = append(s.P99, c.delays[i].quantile(0.99))
	}
	return s
}

// histogram counts delays in microseconds with eight steps per doubling: at most 9 % off.
type histogram struct {
	n      int64
	counts [8 * 32]uint32
}

func (h *histogram) add(us int64) {
	h.n++
	h.counts[slot(us)]++
}

func slot(us int64) int {
	if us < 8 {
		return int(max(us, 0))
	}
	top := bits.Len64(uint64(us)) - 1 // us is in [2^top, 2^(top+1))
	return min((top-2)*8+int(us>>(top-3))&7, 8*32-1)
}

// quantile is the delay that the share q of all stays at or below, −1 without any.
func (h *histogram) quantile(q float64) int64 {
	if h.n == 0 {
		return -1
	}
	want, seen := int64(float64(h.n)*q+0.999999), int64(0)
	for i, c := range h.counts {
		seen += int64(c)
		if seen >= max(want, 1) {
			return upper(i)
		}
	}
	return upper(len(h.counts) - 1)
}

// upper is the highest delay of a slot.
func upper(i int) int64 {
	if i < 8 {
		return int64(i)
	}
	top := i/8 + 2
	return (int64(8+i%8+1) << (top - 3)) - 1
}
