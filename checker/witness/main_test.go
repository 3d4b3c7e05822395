package witness

import (
	"os"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"

	"go.uber.org/goleak"
)

// shared is one server for all tests that leave it running; each takes a database of its own.
var shared *postgres.Instance

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(i *postgres.Instance) { shared = i }))
}

// leavesNoGoroutine fails t when a goroutine that began in it outlives it.
func leavesNoGoroutine(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// page is a Sink in memory.
type page struct {
	mu       sync.Mutex
	start    time.Time
	events   []history.Event
	complete map[history.Witness]bool
	turned   chan struct{} // closed, and made anew, with every event
}

func newPage() *page {
	return &page{start: time.Now(), complete: map[history.Witness]bool{}, turned: make(chan struct{})}
}

func (p *page) Record(w history.Witness, e history.Event) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.W, e.I, e.T = w, int64(len(p.events)+1), p.Now()
	p.events = append(p.events, e)
	close(p.turned)
	p.turned = make(chan struct{})
	return e.I
}

func (p *page) Now() int64 { return int64(time.Since(p.start)) + 1 }

func (p *page) Complete(w history.Witness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complete[w] = true
}

func (p *page) whole(w history.Witness) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.complete[w]
}

// all is every event so far of op, or of any op where op is empty.
func (p *page) all(op contract.Op) []history.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []history.Event
	for _, e := range p.events {
		if op == "" || e.Op == op {
			out = append(out, e)
		}
	}
	return out
}

// patience bounds every wait of a test for a condition. Only a failure meets it.
const patience = 20 * time.Second

// await returns the first event for which is holds, waiting for it.
func (p *page) await(t *testing.T, what string, is func(history.Event) bool) history.Event {
	t.Helper()
	deadline := time.After(patience)
	for from := 0; ; {
		p.mu.Lock()
		turned, events := p.turned, p.events
		p.mu.Unlock()
		for ; from < len(events); from++ {
			if is(events[from]) {
				return events[from]
			}
		}
		select {
		case <-turned:
		case <-deadline:
			t.Fatalf("no event %s came within %s", what, patience)
		}
	}
}

func (p *page) awaitLost(t *testing.T) history.Event {
	t.Helper()
	return p.await(t, "that says the place is lost", func(e history.Event) bool { return e.Op == history.OpLostPlace })
}

func (p *page) keptPlace(t *testing.T) {
	t.Helper()
	for _, e := range p.all(history.OpLostPlace) {
		t.Fatalf("the witness lost its place: %s", e.Msg)
	}
}
