package local

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// lateType is the name of the toxic below.
const lateType = "late"

func init() { toxics.Register(lateType, new(late)) }

// late is a toxic that keeps back what passes: for a time, or until it is taken off. Then everything goes on, in its order,
// and after it the end of the stream if the sender has gone meanwhile. The proxy's own latency toxic does as much, but draws
// its jitter from a source without a seed, and taking it off can hang for good where the receiver has gone: it hands on what
// it has to nobody.
type late struct {
	Hold    bool   `json:"hold"`    // until it is taken off
	Latency int64  `json:"latency"` // ms
	Jitter  int64  `json:"jitter"`  // ms, more or less
	Rate    int64  `json:"rate"`    // bytes per ms, 0 for no limit
	Seed    uint64 `json:"seed"`

	mu  sync.Mutex
	rng *rand.Rand
}

const (
	// receiverLimit is how long it waits for somebody to take what was kept. The proxy waits with it: it changes nothing on
	// the link meanwhile, and takes no new connection.
	receiverLimit = 500 * time.Millisecond
	// mostKept bounds what is kept of one stream, in chunks of at most 32 KB. Beyond it nothing more is read.
	mostKept = 1024
)

// delay is how long the next chunk is kept.
func (t *late) delay() time.Duration {
	ms := t.Latency
	if t.Jitter > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.rng == nil {
			t.rng = rand.New(rand.NewPCG(t.Seed, 0x6c617465)) // "late"
		}
		ms += t.rng.Int64N(2*t.Jitter+1) - t.Jitter
	}
	return time.Duration(max(0, ms)) * time.Millisecond
}

// kept is what a stream has in the toxic.
type kept struct {
	chunks []*stream.StreamChunk
	due    []time.Time
	last   time.Time // the latest that is or was due
	ended  bool      // the sender has gone
}

// Pipe keeps back one stream until it is interrupted or ends.
func (t *late) Pipe(s *toxics.ToxicStub) {
	var k kept
	for {
		in, out, next, timer := k.ways(s, t.Hold)
		select {
		case <-s.Interrupt:
			k.letGo(s)
			return
		case c := <-in:
			if c == nil {
				k.ended = true
			} else {
				k.add(c, t.delay(), t.passing(len(c.Data)))
			}
		case out <- next:
			k.chunks, k.due = k.chunks[1:], k.due[1:]
		case <-timer:
		}
		if k.ended && len(k.chunks) == 0 && !t.Hold {
			s.Close()
			return
		}
	}
}

// passing is how long n bytes take to pass.
func (t *late) passing(n int) time.Duration {
	if t.Rate <= 0 {
		return 0
	}
	return time.Duration(n) * time.Millisecond / time.Duration(t.Rate)
}

// add keeps a chunk; none overtakes another, and each begins to pass when the one before it has passed.
func (k *kept) add(c *stream.StreamChunk, delay, passing time.Duration) {
	due := c.Timestamp.Add(delay)
	if due.Before(k.last) {
		due = k.last
	}
	k.last = due.Add(passing)
	k.chunks, k.due = append(k.chunks, c), append(k.due, k.last)
}

// ways are what can happen next: a chunk comes in, the first one goes out, or it becomes time for it to do so.
func (k *kept) ways(s *toxics.ToxicStub, hold bool) (in <-chan *stream.StreamChunk, out chan<- *stream.StreamChunk, next *stream.StreamChunk, timer <-chan time.Time) {
	if !k.ended && len(k.chunks) < mostKept {
		in = s.Input
	}
	if hold || len(k.chunks) == 0 {
		return in, nil, nil, nil
	}
	if wait := time.Until(k.due[0]); wait > 0 {
		return in, nil, nil, time.After(wait)
	}
	return in, s.Output, k.chunks[0], nil
}

// letGo hands on what was kept. Where nobody takes it the receiver has gone, or is paused behind full buffers, and the stream
// ends here.
func (k *kept) letGo(s *toxics.ToxicStub) {
	for _, c := range k.chunks {
		if s.WriteOutput(c, receiverLimit) != nil {
			s.Close()
			go drain(s.Input)
			return
		}
	}
	if k.ended {
		s.Close()
	}
}

// drain reads what is still sent to somebody who has gone, so that nobody before it hangs. It ends with the sender's
// connection, which the proxy closes when it stops, if nobody does before.
func drain(in <-chan *stream.StreamChunk) {
	for range in {
	}
}

// Cleanup has the proxy look whether the stream has ended here, before it moves on to what stood before it.
func (*late) Cleanup(*toxics.ToxicStub) {}
