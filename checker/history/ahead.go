package history

// How far the decoder runs ahead: enough that neither side often waits for the other, and little memory.
const (
	aheadBatches = 4
	aheadBatch   = 256
)

// ahead decodes a history in a goroutine of its own, a bounded number of events before they are asked for: whoever
// judges them and whoever decodes them can each have a processor.
type ahead struct {
	full  chan *decoded // in order
	empty chan *decoded // to be filled again
	quit  chan struct{} // closed by end
	done  chan struct{} // closed when the goroutine has ended
	have  *decoded      // what is being handed out, and how much of it was
	given int
}

// decoded is a batch of events, and the error behind the last of them.
type decoded struct {
	events []Event
	err    error
}

func (r *Reader) runAhead() *ahead {
	a := &ahead{full: make(chan *decoded, aheadBatches), empty: make(chan *decoded, aheadBatches), quit: make(chan struct{}), done: make(chan struct{})}
	for range aheadBatches {
		a.empty <- &decoded{events: make([]Event, 0, aheadBatch)}
	}
	go func() {
		defer close(a.done)
		a.decode(r.next)
	}()
	return a
}

// decode is the goroutine. It ends with the first error, io.EOF included.
func (a *ahead) decode(next func(*Event) error) {
	for {
		var b *decoded
		select {
		case b = <-a.empty:
		case <-a.quit:
			return
		}
		b.events = b.events[:0]
		for b.err == nil && len(b.events) < aheadBatch {
			b.events = b.events[:len(b.events)+1]
			if b.err = next(&b.events[len(b.events)-1]); b.err != nil {
				b.events = b.events[:len(b.events)-1]
			}
		}
		a.full <- b // there is room for all batches
		if b.err != nil {
			return
		}
	}
}

func (a *ahead) next(e *Event) error {
	for a.have == nil || a.given == len(a.have.events) {
		if a.have != nil {
			if a.have.err != nil {
				return a.have.err
			}
			a.empty <- a.have
		}
		a.have, a.given = <-a.full, 0
	}
	*e = a.have.events[a.given]
	a.given++
	return nil
}

// end stops the goroutine and waits for it.
func (a *ahead) end() {
	close(a.quit)
	<-a.done
}
