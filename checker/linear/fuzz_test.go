package linear

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"fenceproof/checker/history"
)

// FuzzJudge: whatever a history says of a lock, with a log and without one, its keys are judged or left open, in their time.
func FuzzJudge(f *testing.F) {
	w := newWorld()
	w.acquires(10, 20, "ann", 1)
	w.contended(22, 28, "bob")
	w.renews(30, 40, "ann", 1)
	w.revokes(50, 60, 1, 5)
	w.acquires(70, 80, "bob", 5)
	w.untold(85, 0, "bob", "release", 5)
	lines := func(events []history.Event) (text []byte) {
		for i := range events {
			text = append(history.AppendEvent(text, &events[i]), '\n')
		}
		return text
	}
	f.Add(lines(w.history()), false)
	f.Add(lines(heard(w)), true)
	f.Fuzz(func(t *testing.T, text []byte, alone bool) {
		s, err := newSpool()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.close() }()
		x := newExtract(s, alone)
		var d history.Decoder
		last := history.Event{}
		for one := range bytes.SplitSeq(text, []byte("\n")) {
			var e history.Event
			if d.Decode(one, &e) != nil || e.T < last.T || e.I <= last.I {
				continue // no reader gives that
			}
			last = e
			if x.observe(&e) != nil {
				return
			}
		}
		if err := x.finish(); err != nil {
			t.Fatal(err)
		}
		for _, key := range s.order {
			shared, err := writeFrame(x.frameOf(key))
			if err != nil {
				t.Fatal(err)
			}
			frame, err := readFrame(bytes.NewReader(shared))
			if err != nil {
				t.Fatal(err)
			}
			if err := judgedKey(s, key, frame); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// judgedKey judges one key as its process would.
func judgedKey(s *spool, key string, f *frame) error {
	entries, _ := s.entries(key)
	k, err := readKey(entries)
	if err != nil {
		return err
	}
	readings, _ := s.readings()
	c, err := readClock(readings, k.expiries(), f.Steps)
	if err != nil {
		return err
	}
	b := Budget{Time: 100 * time.Millisecond}
	if got := check(&task{Key: key, Budget: b}, k, f, c, time.Now().Add(b.Time)); got.Counts.Operations < 0 || got.Sentence != "" && len(got.Refs) == 0 {
		return errors.New("a violation without an event: " + got.Sentence)
	}
	return nil
}
