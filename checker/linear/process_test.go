package linear

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/verdict"
)

func TestMain(m *testing.M) {
	RunIfAsked() // the checkers are this program under another name
	os.Exit(m.Run())
}

var settings = verdict.Settings{Workload: "lock", Backend: "pg"}

// verdictOf judges the history in dir, each key in a process of its own.
func verdictOf(t *testing.T, dir string, o Options) verdict.Invariant {
	t.Helper()
	inv, err := Judge(context.Background(), dir, settings, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// busy is a history of several keys with nothing wrong.
func busy() *world {
	w := newWorld()
	for i := range int64(30) {
		w.on(fmt.Sprintf("key-%d", i%3))
		at := 100 * i
		w.acquires(at, at+10, "ann", i+1)
		w.contended(at+12, at+18, "bob")
		w.renews(at+20, at+30, "ann", i+1)
		w.releases(at+40, at+50, "ann", i+1)
		w.lost(at+60, at+70, "ann", contract.OpRelease, i+1)
	}
	return w
}

func TestAHistoryOfHealthyKeysPasses(t *testing.T) {
	inv := verdictOf(t, store(t, busy().history()), Options{Run: t.TempDir()})
	if inv.Status != verdict.Pass || inv.Checked != 180 || inv.Danger["keys"] != 3 || inv.Danger["contended"] != 30 {
		t.Fatalf("%+v", inv)
	}
}

func TestAViolationHasItsEventsAndItsPageAndIsTheSameTwice(t *testing.T) {
	w := busy()
	w.on(`k"<script>alert(1)</script>/../..`)
	w.acquires(4000, 4010, "<b>ann", 101)
	w.acquires(4020, 4030, "bob", 102)
	dir, run := store(t, w.history()), t.TempDir()
	first := verdictOf(t, dir, Options{Run: run})
	if first.Status != verdict.Violated || first.Found != 1 {
		t.Fatalf("%+v", first)
	}
	v := first.Violations[0]
	if want := "bob was granted key " + w.key + " with token 102, although <b>ann held it with token 101"; v.Sentence != want || v.Key != w.key {
		t.Errorf("got %q, want %q", v.Sentence, want)
	}
	if len(v.Events) < minRefs || len(v.Events) > maxRefs {
		t.Errorf("%d events", len(v.Events))
	}
	for i, e := range v.Events {
		if e.Res != "" || i > 0 && e.I <= v.Events[i-1].I {
			t.Errorf("event %d is not as a proof shows it: %+v", i, e)
		}
	}
	page, err := os.ReadFile(filepath.Join(run, v.Page))
	if err != nil || v.Page != "linear/1.html" {
		t.Fatal(v.Page, err)
	}
	if text := string(page); !strings.Contains(text, "acquire → token 102") || !strings.Contains(text, "acquire → token 101") || strings.Contains(text, "alert(1)") || strings.Contains(text, "<b>ann") {
		t.Error("the page does not show the operations, or shows markup of the evidence")
	}
	if again := verdictOf(t, dir, Options{Run: run, Again: true}); !reflect.DeepEqual(again, first) {
		t.Errorf("judged again it is %+v, not %+v", again, first)
	}
}

func TestAPageThatCouldNotBeWrittenIsNotNamedWhenTheRunIsJudgedAgain(t *testing.T) {
	w := newWorld()
	w.acquires(10, 20, "ann", 1)
	w.acquires(30, 40, "bob", 2)
	dir, run := store(t, w.history()), t.TempDir()
	if err := os.WriteFile(filepath.Join(run, Folder), []byte("in the way"), 0o644); err != nil {
		t.Fatal(err)
	}
	first := verdictOf(t, dir, Options{Run: run})
	if first.Found != 1 || first.Violations[0].Page != "" {
		t.Fatalf("%+v", first)
	}
	if again := verdictOf(t, dir, Options{Run: run, Again: true}); !reflect.DeepEqual(again, first) {
		t.Errorf("judged again it is %+v, not %+v", again, first)
	}
}

func TestAKeyThatRunsOutOfTimeIsInconclusiveAndTheOthersAreNot(t *testing.T) {
	w := busy()
	explosive(w.on("hard"))
	inv := verdictOf(t, store(t, w.history()), Options{Budget: Budget{Time: 300 * time.Millisecond, Memory: 1 << 30}})
	if inv.Status != verdict.Inconclusive || !strings.Contains(inv.Reason, "1 of 4 keys could not be decided: key hard: the search ran out of its 300ms") {
		t.Fatalf("%+v", inv)
	}
	if inv.Checked < 180 {
		t.Fatalf("only %d operations were judged", inv.Checked)
	}
}

func TestAKeyThatRunsOutOfMemoryIsInconclusive(t *testing.T) {
	w := newWorld()
	explosive(w)
	inv := verdictOf(t, store(t, w.history()), Options{Budget: Budget{Time: time.Minute, Memory: 32 << 20}})
	if inv.Status != verdict.Inconclusive || !strings.Contains(inv.Reason, "ran out of its 32 MiB of memory") {
		t.Fatalf("%+v", inv)
	}
}

func TestAViolationElsewhereOutweighsAKeyThatCouldNotBeDecided(t *testing.T) {
	w := newWorld()
	explosive(w.on("hard"))
	w.on("wrong").acquires(10, 20, "ann", 101)
	w.acquires(30, 40, "bob", 102)
	inv := verdictOf(t, store(t, w.history()), Options{Budget: Budget{Time: 200 * time.Millisecond, Memory: 1 << 30}})
	if inv.Status != verdict.Violated || inv.Found != 1 {
		t.Fatalf("%+v", inv)
	}
}

func TestACheckerThatIsKilledLeavesItsKeyOpen(t *testing.T) {
	defer func() { started = nil }()
	n := 0
	started = func(p *os.Process) {
		if n++; n == 2 {
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	inv := verdictOf(t, store(t, busy().history()), Options{})
	if inv.Status != verdict.Inconclusive || !strings.Contains(inv.Reason, "key key-1: its checker ended without a conclusion: signal: killed") {
		t.Fatalf("%+v", inv)
	}
}

func TestACheckerThatCannotReadItsKeyLeavesItOpen(t *testing.T) {
	shared, err := writeFrame(&frame{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := ask(context.Background(), &task{Key: "k", Frame: int64(len(shared)), Entries: 7, Budget: DefaultBudget}, shared, strings.NewReader("nothing"))
	if err != nil || !strings.Contains(f.Open, "its checker ended without a conclusion") || !strings.Contains(f.Open, "read the operations of a key") {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestAHoleInTheEvidenceIsInconclusiveWithoutASearch(t *testing.T) {
	for _, w := range RestsOn() {
		inv, err := Judge(context.Background(), "no folder is opened", settings, map[string]string{string(w): "torn"}, Options{})
		if err != nil || inv.Status != verdict.Inconclusive || !strings.Contains(inv.Reason, "torn") {
			t.Errorf("%s: %+v, %v", w, inv, err)
		}
	}
}

func TestManyOperationsGoThroughFilesNotThroughMemory(t *testing.T) {
	s, err := newSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	const keys, entries = 200, 2000
	for i := range keys * entries {
		e := entry{Call: &call{Op: contract.OpAcquire, Session: "a session id as long as they are", Sent: Mark{int64(i), int64(i)}}}
		if err := s.put(fmt.Sprintf("key/%d", i%keys), e); err != nil {
			t.Fatal(err)
		}
		if s.held > spoolTotal {
			t.Fatalf("%d bytes are in memory", s.held)
		}
	}
	all, _ := s.entries("key/7")
	k, err := readKey(all)
	if err != nil || len(k.Calls) != entries || k.Calls[1].Sent.I != keys+7 {
		t.Fatal(len(k.Calls), err)
	}
}

// What a checker is told and what it says goes through a pipe as JSON.
func TestAFindingComesThroughThePipe(t *testing.T) {
	f := finding{Counts: Counts{Operations: 1, Unheard: 2}, Searched: 3, Open: "o", Sentence: "s", Refs: []int64{1 << 60}, Page: true}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var got finding
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, f) {
		t.Fatalf("%+v, %v", got, err)
	}
}
