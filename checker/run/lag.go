package run

import (
	"slices"
	"sync"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/invariant"
)

// Lag is how far the live verdict was behind what the recorder had been given: for every event, the time from its
// recording until the judge had taken it and everything before it.
type Lag struct {
	Events      int64
	Median, P99 time.Duration
	Max         time.Duration
}

// lagMeter hears every event after the judge has.
type lagMeter struct {
	now   func() int64
	judge *invariant.Judge

	mu      sync.Mutex
	on      bool
	pending []int64 // T of events that the judge was given and still holds back, in order
	lags    []time.Duration
}

func (m *lagMeter) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = true
}

func (m *lagMeter) observe(e *history.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on {
		return
	}
	m.pending = append(m.pending, e.T)
	now := m.now()
	oldest, waits := m.judge.Waiting()
	n := 0
	for n < len(m.pending) && (!waits || m.pending[n] < oldest) {
		m.lags = append(m.lags, time.Duration(now-m.pending[n]))
		n++
	}
	m.pending = append(m.pending[:0], m.pending[n:]...)
}

// stop gives what was measured since start. What is still held back counts with the time that it has waited by now.
func (m *lagMeter) stop() Lag {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = false
	for _, t := range m.pending {
		m.lags = append(m.lags, time.Duration(m.now()-t))
	}
	if len(m.lags) == 0 {
		return Lag{}
	}
	slices.Sort(m.lags)
	at := func(q float64) time.Duration { return m.lags[int(q*float64(len(m.lags)-1))] }
	return Lag{Events: int64(len(m.lags)), Median: at(0.5), P99: at(0.99), Max: at(1)}
}
