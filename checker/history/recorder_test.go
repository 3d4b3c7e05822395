package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fenceproof/checker/contract"
)

// victimEnv makes the test binary a program that records into the folder it names until it is killed.
const victimEnv = "HISTORY_TEST_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
	}
	goleak.VerifyTestMain(m)
}

func victim(dir string) {
	rec, err := Create(dir, header())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for n := 0; ; n++ {
		rec.Record([]Witness{Wiretap, PayDB}[n%2], Event{Type: contract.Info, Msg: strings.Repeat("m", n%700)})
		if n == 2000 {
			fmt.Println("recording") // and on and on, at a pace that the disk keeps up with
		}
		if n%10 == 0 {
			time.Sleep(100 * time.Microsecond) // the pace: nobody waits for it
		}
	}
}

func header() Header {
	return Header{
		RunID: "20260102T030405Z-payout-pg-pause-7", Seed: 1<<63 + 7,
		Plan: json.RawMessage(`{"steps":[{"at":"1s"}]}`), Config: json.RawMessage(`{"executors":6}`),
		Versions: map[string]string{"postgres": "16.10"},
		Started:  time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	}
}

// readAll reads the whole history in dir.
func readAll(t *testing.T, dir string) ([]Event, *Reader) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	var es []Event
	for {
		var e Event
		switch err := r.Next(&e); err {
		case nil:
			if e.Event != Missing {
				es = append(es, e)
			}
		case io.EOF:
			return es, r
		default:
			t.Fatal(err)
		}
	}
}

func TestWhatManyGoroutinesRecordIsReadBackInOneOrderWithoutGaps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	rec, err := Create(dir, header())
	if err != nil {
		t.Fatal(err)
	}
	var seen []int64 // the writer's goroutine alone appends; Close is the barrier
	rec.Subscribe(func(e *Event) { seen = append(seen, e.I) })
	const each = 500
	var wg sync.WaitGroup
	for g, w := range Witnesses() {
		wg.Go(func() {
			for n := range each {
				i := rec.Record(w, Event{Type: contract.Info, Proc: "p", Op: OpLog, Call: int64(n + 1), Window: g})
				if i == 0 {
					t.Error("an event was not recorded")
				}
			}
			rec.Complete(w)
		})
	}
	wg.Wait()
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	es, r := readAll(t, dir)
	if gaps := r.Gaps(); len(gaps) > 0 {
		t.Errorf("gaps in a complete history: %v", gaps)
	}
	if len(es) != each*len(Witnesses()) || len(seen) != len(es) {
		t.Fatalf("%d events read, %d seen by the subscriber, want %d", len(es), len(seen), each*len(Witnesses()))
	}
	next := map[Witness]int64{}
	for n, e := range es {
		if e.I != int64(n+1) || seen[n] != e.I {
			t.Fatalf("event %d is number %d in the files and %d for the subscriber", n+1, e.I, seen[n])
		}
		if next[e.W]++; e.Call != next[e.W] {
			t.Fatalf("%s: event %d comes where event %d should", e.W, e.Call, next[e.W])
		}
	}
	h := header()
	h.Schema, h.Witness, h.Witnesses = SchemaVersion, r.Header().Witness, Witnesses()
	if got := r.Header(); !reflect.DeepEqual(got, h) {
		t.Errorf("header\n got %+v\nwant %+v", got, h)
	}
}

func TestAnEventReachesTheFileWhileTheRunGoesOn(t *testing.T) {
	dir := t.TempDir()
	rec, err := Create(dir, header())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rec.Close() }()
	rec.Record(Journal, Event{Type: contract.OK, Op: OpMoney, Msg: "the one"})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) { // the pause between two looks at the condition
		b, err := os.ReadFile(filepath.Join(dir, "journal.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "the one") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the event is still only in memory")
		}
	}
}

func TestAHistoryIsNeverWrittenOver(t *testing.T) {
	dir := t.TempDir()
	rec, err := Create(dir, header())
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, header()); err == nil {
		t.Fatal("a second history was begun in the folder of the first")
	}
}

func TestWhatCannotBeRecordedIsAnErrorAndNeverSilentlyMissing(t *testing.T) {
	for name, spoil := range map[string]func(*Recorder){
		"an event after its witness completed": func(r *Recorder) { r.Complete(PayDB); r.Record(PayDB, Event{}) },
		"a witness that the header lacks":      func(r *Recorder) { r.Record("stranger", Event{}) },
		"a line above the limit":               func(r *Recorder) { r.Record(PayDB, Event{Msg: strings.Repeat("x", MaxLine)}) },
		"a file that cannot be written": func(r *Recorder) {
			_ = r.files[PayDB].os.Close()
			r.Record(PayDB, Event{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rec, err := Create(dir, header())
			if err != nil {
				t.Fatal(err)
			}
			spoil(rec)
			rec.Complete(PayDB)
			if err := rec.Close(); err == nil {
				t.Error("Close saw nothing wrong")
			}
			if rec.Record(PayDB, Event{}) != 0 {
				t.Error("a closed recorder records")
			}
		})
	}
}

func TestASubscriberMayRecordAndLaterSubscribersSeeLaterEventsOnly(t *testing.T) {
	dir := t.TempDir()
	rec, err := Create(dir, header())
	if err != nil {
		t.Fatal(err)
	}
	echoed := make(chan int64, 2)
	rec.Subscribe(func(e *Event) {
		switch e.W {
		case Wiretap:
			rec.Record(Nemesis, Event{Msg: fmt.Sprintf("saw %d", e.I)})
		case Nemesis:
			echoed <- e.I
		}
	})
	rec.Record(Wiretap, Event{})
	if i := <-echoed; i != 2 {
		t.Errorf("the echo has number %d, want 2", i)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	es, _ := readAll(t, dir)
	if len(es) != 2 || es[1].Msg != "saw 1" {
		t.Errorf("history: %+v", es)
	}
}

func TestAKilledRecorderLeavesAHistoryThatIsReadAsFarAsItGoes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		dir := filepath.Join(t.TempDir(), "history")
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), victimEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "recording\n" {
			t.Errorf("the victim said %q, %v", line, err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // "signal: killed"
		es, r := readAll(t, dir)
		if gaps := r.Gaps(); len(gaps) != len(Witnesses()) {
			t.Errorf("gaps %v: no file of a killed run is complete", gaps)
		}
		last := map[Witness]int64{}
		for _, e := range es {
			if before := last[e.W]; before != 0 && e.I != before+2 {
				t.Fatalf("%s: event %d follows event %d", e.W, e.I, before)
			}
			last[e.W] = e.I
		}
		if len(last) != 2 {
			t.Errorf("events of %v only: nothing was flushed", last)
		}
	}
}
