package witness

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// growing is a file that a test writes piece by piece.
type growing struct {
	*testing.T
	path string
	page *page
}

func newGrowing(t *testing.T, name string) *growing {
	t.Helper()
	leavesNoGoroutine(t)
	return &growing{T: t, path: filepath.Join(t.TempDir(), name), page: newPage()}
}

func (g *growing) add(text string) {
	g.Helper()
	f, err := os.OpenFile(g.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		g.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		g.Fatal(err)
	}
}

func (g *growing) journal() *Journal {
	j := FollowJournal(g.path, g.page)
	g.Cleanup(func() { _ = j.Close(g.Context()) })
	return j
}

func (g *growing) drained(j *Journal) []history.Event {
	g.Helper()
	if err := j.Drain(g.Context()); err != nil {
		g.Fatal(err)
	}
	return g.page.all(history.OpMoney)
}

func transferLine(n int) string {
	return fmt.Sprintf(`{"railReference":"rail-%d","clientRef":"payout-%d","amountMinor":%d,"currency":"EUR","acceptedAt":"2026-01-01T00:00:00.000000001Z"}`+"\n",
		n, n, int64(9007199254740993)+int64(n))
}

func TestTheJournalIsRecordedLineByLine(t *testing.T) {
	g := newGrowing(t, "journal.ndjson")
	j := g.journal()
	if got := g.drained(j); len(got) != 0 {
		t.Fatalf("a journal that is not there yet holds %d transfers", len(got))
	}
	g.add(transferLine(1))
	got := g.drained(j)
	want := history.Event{I: got[0].I, T: got[0].T, W: history.Journal, Type: contract.OK, Proc: contract.RailStub, Op: history.OpMoney,
		Payout: "payout-1", Amount: 9007199254740994, Currency: "EUR", RailRef: "rail-1"}
	if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("recorded %+v, want %+v", got, want)
	}
	if err := j.Close(t.Context()); err != nil || !g.page.whole(history.Journal) {
		t.Errorf("Close returned %v, complete %t", err, g.page.whole(history.Journal))
	}
}

func TestATornLineWaitsForItsRest(t *testing.T) {
	g := newGrowing(t, "journal.ndjson")
	j := g.journal()
	text := transferLine(1) + transferLine(2) + transferLine(3)
	for i := range text { // byte by byte: torn everywhere
		g.add(text[i : i+1])
		if got, want := len(g.drained(j)), strings.Count(text[:i+1], "\n"); got != want {
			t.Fatalf("after %d bytes %d transfers are recorded, want %d", i+1, got, want)
		}
	}
	g.page.keptPlace(t)
}

func TestWhatAKilledRailLeftOfALineMayBeTakenAwayAgain(t *testing.T) {
	g := newGrowing(t, "journal.ndjson")
	j := g.journal()
	whole := transferLine(1)
	g.add(whole + transferLine(2)[:20])
	g.drained(j)
	if err := os.Truncate(g.path, int64(len(whole))); err != nil {
		t.Fatal(err)
	}
	g.drained(j)
	g.add(transferLine(3))
	if got := g.drained(j); len(got) != 2 || got[1].Payout != "payout-3" {
		t.Errorf("recorded %+v", got)
	}
	g.page.keptPlace(t)
}

func TestALineThatAKilledRailBrokeOffAndEndedLaterIsNoTransfer(t *testing.T) {
	line := strings.TrimSuffix(transferLine(2), "\n")
	g := newGrowing(t, "journal.ndjson")
	for cut := 1; cut <= len(line); cut++ {
		g.path, g.page = filepath.Join(t.TempDir(), "journal.ndjson"), newPage()
		j := g.journal()
		g.add(transferLine(1) + line[:cut] + "\n" + transferLine(3))
		got, want := g.drained(j), 2
		if cut == len(line) { // only the line's end was missing: that is the transfer
			want = 3
		}
		if len(got) != want || got[want-1].Payout != "payout-3" {
			t.Fatalf("broken off after %d bytes, recorded %+v", cut, got)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABurstOfTransfersIsRecordedWholeAndInOrder(t *testing.T) {
	g := newGrowing(t, "journal.ndjson")
	j := g.journal()
	rng := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	const n = 20_000
	for i := range n {
		text.WriteString(transferLine(i))
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for rest := text.String(); rest != ""; { // pieces that end anywhere
			k := min(len(rest), 1+rng.IntN(100_000))
			g.add(rest[:k])
			rest = rest[k:]
		}
	})
	writer.Wait()
	got := g.drained(j)
	for i, e := range got {
		if e.Payout != "payout-"+strconv.Itoa(i) {
			t.Fatalf("transfer %d is %s", i, e.Payout)
		}
	}
	if len(got) != n {
		t.Fatalf("%d transfers were recorded of %d", len(got), n)
	}
}

func TestAWatermarkOfTheJournalComesAfterEveryTransferThatItCovers(t *testing.T) {
	g := newGrowing(t, "journal.ndjson")
	j := g.journal()
	writtenAt := map[string]int64{}
	for i := range 300 {
		g.add(transferLine(i))
		writtenAt[fmt.Sprintf("payout-%d", i)] = g.page.Now()
		if i%7 == 0 {
			g.drained(j)
		}
	}
	g.drained(j)
	recorded := map[string]bool{}
	checked := 0
	for _, e := range g.page.all("") {
		recorded[e.Payout] = true
		if e.Op != history.OpWatermark {
			continue
		}
		for payout, at := range writtenAt {
			if at <= e.Covers {
				if checked++; !recorded[payout] {
					t.Fatalf("event %d covers %d, but %s, written by %d, is not recorded yet", e.I, e.Covers, payout, at)
				}
			}
		}
	}
	if checked == 0 {
		t.Fatal("no watermark covered anything: the test tests nothing")
	}
}

func TestAJournalThatIsNotWhatItWasCostsThePlace(t *testing.T) {
	rewrite := func(g *growing, text string) {
		if err := os.WriteFile(g.path+".new", []byte(text), 0o644); err != nil {
			g.Fatal(err)
		}
		if err := os.Rename(g.path+".new", g.path); err != nil {
			g.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, because string
		harm          func(g *growing)
	}{
		{"a line that is no JSON", "is no transfer", func(g *growing) { g.add("oops\n") }},
		{"an empty line", "is no transfer", func(g *growing) { g.add("\n") }},
		{"two lines run together", "is no transfer", func(g *growing) { g.add(transferLine(2)[:30] + transferLine(3)) }},
		{"a line without a client reference", "it needs railReference, clientRef", func(g *growing) {
			g.add(`{"railReference":"r","amountMinor":1,"currency":"EUR"}` + "\n")
		}},
		{"an amount of nothing", "it needs railReference, clientRef", func(g *growing) {
			g.add(`{"railReference":"r","clientRef":"c","amountMinor":0,"currency":"EUR"}` + "\n")
		}},
		{"an amount that is no whole number", "is no transfer", func(g *growing) {
			g.add(`{"railReference":"r","clientRef":"c","amountMinor":1.5,"currency":"EUR"}` + "\n")
		}},
		{"a file that shrank", "the file shrank", func(g *growing) {
			if err := os.Truncate(g.path, 10); err != nil {
				g.Fatal(err)
			}
		}},
		{"a file that was replaced", "the file was replaced", func(g *growing) { rewrite(g, transferLine(1)+transferLine(2)) }},
		{"a file that is gone", "the file is gone", func(g *growing) {
			if err := os.Remove(g.path); err != nil {
				g.Fatal(err)
			}
		}},
		{"a line without end", "longer than", func(g *growing) { g.add(strings.Repeat("x", maxLine)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGrowing(t, "journal.ndjson")
			j := g.journal()
			g.add(transferLine(1))
			g.drained(j)
			c.harm(g)
			if e := g.page.awaitLost(t); !strings.Contains(e.Msg, c.because) {
				t.Errorf("the place was lost because %q, want %q", e.Msg, c.because)
			}
			if err := j.Drain(t.Context()); !errors.Is(err, ErrLost) {
				t.Errorf("Drain returned %v", err)
			}
			if err := j.Close(t.Context()); !errors.Is(err, ErrLost) || g.page.whole(history.Journal) {
				t.Errorf("Close returned %v, complete %t", err, g.page.whole(history.Journal))
			}
			if got := g.page.all(history.OpMoney); len(got) != 1 {
				t.Errorf("%d transfers are recorded, want the one before the harm", len(got))
			}
		})
	}
}

func TestTheServicesEventsAreRecordedWithTheirAttributes(t *testing.T) {
	g := newGrowing(t, "executor-2.log")
	logs := FollowLogs(filepath.Dir(g.path), g.page)
	f, err := os.Create(g.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log := slog.New(slog.NewJSONHandler(f, nil)).With("service", "payout-executor")
	log.Info("polling") // no event
	fmt.Fprintln(f, "panic: not JSON at all")
	fmt.Fprintln(f, `{"event":17}`)
	log.Error("refused", "event", "fenced_out", "presentedToken", int64(9223372036854775806), "stale", true, "resourceId", "ä\n",
		"details", map[string]any{"n": json.Number("9007199254740993")})
	fmt.Fprint(f, `{"event":"torn","n":1`)
	e := g.page.await(t, "from the log", func(e history.Event) bool { return e.Op == history.OpLog })
	fmt.Fprintln(f, `}`)
	g.page.await(t, "that had been torn", func(e history.Event) bool { return e.Event == "torn" })
	logs.Close()

	if e.Attrs["time"] == "" {
		t.Error("the service's own time is missing")
	}
	delete(e.Attrs, "time")
	want := history.Event{I: e.I, T: e.T, W: history.Logs, Type: contract.Info, Proc: "executor-2", Op: history.OpLog, Event: "fenced_out",
		Msg: "refused", Attrs: map[string]string{"service": "payout-executor", "level": "ERROR", "presentedToken": "9223372036854775806",
			"stale": "true", "resourceId": "ä\n", "details": `{"n":9007199254740993}`}}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("recorded\n%+v, want\n%+v", e, want)
	}
	if got := len(g.page.all("")); got != 2 {
		t.Errorf("%d events were recorded, want 2", got)
	}
	if !g.page.whole(history.Logs) {
		t.Error("the history of the logs was not marked as complete")
	}
}

func TestALogStormIsBoundedAndCounted(t *testing.T) {
	g := newGrowing(t, "storm.log")
	const lines = 5 * logBurst
	g.add(strings.Repeat(`{"event":"storm"}`+"\n", lines) + `{"event":"` + strings.Repeat("x", logMaxEvent) + `"}` + "\n")
	g.add(strings.Repeat("y", 3*maxLine) + "\n")
	quiet := filepath.Join(filepath.Dir(g.path), "quiet.log")
	if err := os.WriteFile(quiet, []byte(`{"event":"heard"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	logs := FollowLogs(filepath.Dir(g.path), g.page)
	g.page.await(t, "of the quiet process", func(e history.Event) bool { return e.Event == "heard" })
	logs.Close()
	recorded, left := 0, 0
	for _, e := range g.page.all(history.OpLog) {
		switch e.Event {
		case "storm":
			recorded++
		case EventLeftOut:
			n, err := strconv.Atoi(e.Attrs["lines"])
			if err != nil || e.Proc != "storm" {
				t.Fatalf("%+v", e)
			}
			left += n
		}
	}
	if recorded < logBurst || recorded > 2*logBurst {
		t.Errorf("%d lines of a storm of %d were recorded, want about %d", recorded, lines, logBurst)
	}
	if got, want := recorded+left, lines+1+3; got != want { // the line too long for an event, and three pieces of the endless one
		t.Errorf("%d lines were recorded and %d counted as left out, together %d, want %d", recorded, left, got, want)
	}
}

func TestALogThatGrowsFasterThanItIsReadIsPassedOver(t *testing.T) {
	g := newGrowing(t, "flood.log")
	g.add(`{"event":"first"}` + "\n")
	if err := os.Truncate(g.path, 2*logBacklog); err != nil { // a hole: as long as a flood, and no bytes on the disk
		t.Fatal(err)
	}
	g.add("\n" + `{"event":"last"}` + "\n")
	logs := FollowLogs(filepath.Dir(g.path), g.page)
	g.page.await(t, "at the end of the flood", func(e history.Event) bool { return e.Event == "last" })
	logs.Close()
	g.page.await(t, "that tells what was left out", func(e history.Event) bool { return e.Event == EventLeftOut && e.Proc == "flood" })
}

func TestALogThatBeginsAnewIsFollowedAgain(t *testing.T) {
	g := newGrowing(t, "rail-stub.log")
	logs := FollowLogs(filepath.Dir(g.path), g.page)
	defer logs.Close()
	g.add(`{"event":"one"}` + "\n" + `{"event":"two"}` + "\n")
	g.page.await(t, "two", func(e history.Event) bool { return e.Event == "two" })
	if err := os.WriteFile(g.path, []byte(`{"event":"three"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g.page.await(t, "three", func(e history.Event) bool { return e.Event == "three" })
}
