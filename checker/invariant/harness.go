package invariant

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// span is a time between two moments of the harness's clock.
type span struct{ from, to int64 }

func (s span) overlaps(from, to int64) bool { return s.from <= to && s.to >= from }

// pulse watches whether the harness itself stood still: its signs of life come every 100 ms.
type pulse struct {
	last int64
	gaps []span // the latest that were longer than a moment
}

const (
	aMoment = 150 * time.Millisecond // a gap between two signs of life that means nothing
	maxGaps = 1024
)

func (p *pulse) observe(e *history.Event) {
	if e.W != history.Run || e.Op != history.OpAlive {
		return
	}
	if p.last != 0 && e.T-p.last > int64(aMoment) {
		if len(p.gaps) == maxGaps {
			p.gaps = append(p.gaps[:0], p.gaps[1:]...)
		}
		p.gaps = append(p.gaps, span{p.last, e.T})
	}
	p.last = e.T
}

// stood is the longest time that the harness stood still between two moments.
func (p *pulse) stood(from, to int64) time.Duration {
	var longest int64
	for _, g := range p.gaps {
		if g.overlaps(from, to) {
			longest = max(longest, g.to-g.from)
		}
	}
	if p.last != 0 && to > p.last {
		longest = max(longest, to-p.last)
	}
	return time.Duration(longest)
}

// waits is for how long processes were kept from running by others. The harness asks the kernel every 100 ms.
type waits struct {
	last int64             // all that was over by then is known
	of   map[string][]wait // the latest of each process
}

// wait is a time by whose end it was known that the threads of a process had been ready to run, together, for so long, and had
// not run. A single one can be longer than that time: it counts once it is over.
type wait struct {
	span
	waited time.Duration
}

const maxWaits = 512 // 51 s of a process that always waits

func newWaits() waits { return waits{of: map[string][]wait{}} }

func (w *waits) observe(e *history.Event) {
	if e.W != history.Run || e.Op != history.OpWaits {
		return
	}
	asked := duration(e.Attrs[history.AskedFor])
	if w.last != 0 {
		for name, text := range e.Attrs {
			d := duration(text)
			if d == 0 || name == history.AskedFor {
				continue
			}
			all := w.of[name]
			if len(all) == maxWaits {
				all = append(all[:0], all[1:]...)
			}
			w.of[name] = append(all, wait{span{w.last, e.T}, d})
		}
	}
	w.last = e.T - int64(asked)
}

// duration is what a text says, 0 where it says nothing.
func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// kept is for how long at most a process was kept from running between two moments: what one thing after the other waited for,
// each as late as it can have been.
func (w *waits) kept(name string, from, to int64) (sum time.Duration) {
	for _, x := range slices.Backward(w.of[name]) {
		if x.from >= to {
			continue // it began after that
		}
		end := min(x.to, to)
		if end <= from {
			break
		}
		begin := max(end-int64(x.waited), from)
		sum, to = sum+time.Duration(end-begin), begin
	}
	return sum
}

// setting reads a duration that the run gave to its services, and what the contract gives where it names none.
func setting(s verdict.Settings, name string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(s.Services[name])
	if err != nil {
		return otherwise
	}
	return d
}

// The contract's defaults.
const (
	defaultLockTTL    = 30 * time.Second
	defaultSessionTTL = 15 * time.Second
	defaultMargin     = 0.30
)

// leaseTimes are the lease times of a run.
type leaseTimes struct {
	lock, session time.Duration
	margin        float64 // share of a lease that its holder does not use
}

func leaseTimesOf(s verdict.Settings) leaseTimes {
	margin, err := strconv.ParseFloat(cmp.Or(s.Services["LOCK_CLIENT_SAFETYMARGIN"], "0.30"), 64)
	if err != nil {
		margin = defaultMargin
	}
	return leaseTimes{setting(s, "LOCK_DEFAULT_TTL", defaultLockTTL), setting(s, "LOCK_SESSION_TTL", defaultSessionTTL), margin}
}

// usable is how much of a lease its holder may use.
func (l leaseTimes) usable(lease time.Duration) int64 {
	return int64(float64(lease) * (1 - l.margin))
}
