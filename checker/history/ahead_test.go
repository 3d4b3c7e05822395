package history

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// writeHistory writes n events of the run's own witness, and rest behind them.
func writeHistory(t *testing.T, n int, rest string) string {
	t.Helper()
	dir := t.TempDir()
	var b bytes.Buffer
	w, err := NewWriter(&b, Run, Header{RunID: "ahead", Witnesses: []Witness{Run}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := w.Write(&Event{I: int64(i + 1), T: int64(i), W: Run, Op: OpPhase}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	b.WriteString(rest)
	if err := os.WriteFile(filepath.Join(dir, "run.ndjson"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWhoStopsReadingInTheMiddleLeavesNoGoroutineBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := writeHistory(t, 20*aheadBatch*aheadBatches, "")
	for _, read := range []int{0, 1, aheadBatch, aheadBatch + 1, 7 * aheadBatch} {
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var e Event
		for i := range read {
			if err := r.Next(&e); err != nil || e.I != int64(i+1) {
				t.Fatalf("event %d: %v, %v", i+1, e.I, err)
			}
		}
		for range 2 {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Next(&e); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("a closed reader read on: %v", err)
		}
	}
}

func TestAnErrorComesBehindAllEventsBeforeItAndStays(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, n := range []int{0, 1, aheadBatch - 1, aheadBatch, aheadBatch + 1, 3 * aheadBatch} {
		r, err := Open(writeHistory(t, n, "this is no JSON\n"))
		if err != nil {
			t.Fatal(err)
		}
		var e Event
		for i := range n {
			if err := r.Next(&e); err != nil || e.I != int64(i+1) {
				t.Fatalf("event %d of %d: %d, %v", i+1, n, e.I, err)
			}
		}
		first := r.Next(&e)
		if first == nil || errors.Is(first, io.EOF) {
			t.Errorf("after %d events: %v", n, first)
		}
		if again := r.Next(&e); !errors.Is(again, first) {
			t.Errorf("first %v, then %v", first, again)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
