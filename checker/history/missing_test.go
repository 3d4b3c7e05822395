package history

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A killed harness leaves a file that ends anywhere.
func TestAFileThatEndsAnywhereGivesItsWholeEventsAndAGap(t *testing.T) {
	dir := written(t)
	whole := get(t, filepath.Join(dir, "wiretap.ndjson"))
	lines := strings.SplitAfter(whole, "\n")
	for end := range len(whole) {
		put(t, filepath.Join(dir, "wiretap.ndjson"), whole[:end])
		is, gaps, err := read(dir)
		if err != nil {
			t.Fatalf("cut at %d: %v", end, err)
		}
		want := []int64{2, 4}
		at := len(lines[0])
		for n, i := range []int64{1, 3, 5} {
			if at += len(lines[n+1]); end >= at-1 { // the line break may be missing
				want = append(want, i)
			}
		}
		complete := end == len(whole)-1 // only the line break of the trailer is missing
		if _, gap := gaps[Wiretap]; gap == complete || len(gaps) > 1 {
			t.Fatalf("cut at %d of %d: gaps %v", end, len(whole), gaps)
		}
		if len(is) != len(want) {
			t.Fatalf("cut at %d: read %v, want %v in order", end, is, want)
		}
	}
}

// Whoever judges has to know of a break where it is, not at the end: what is not heard of from there on may have been.
func TestWhereAFileBreaksOffItIsSaid(t *testing.T) {
	for _, c := range []struct {
		name   string
		lines  int // of the wiretap's file that are left; -1: there is no such file
		behind int64
	}{{"there is no file", -1, 0}, {"it ends behind its header", 1, 0}, {"it ends behind its first event", 2, 1}, {"its trailer is missing", 4, 5}} {
		dir := written(t)
		path := filepath.Join(dir, "wiretap.ndjson")
		if lines := strings.SplitAfter(get(t, path), "\n"); c.lines >= 0 {
			put(t, path, strings.Join(lines[:c.lines], ""))
		} else if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var e Event
		var before, told int64 = 0, -1
		for r.Next(&e) == nil {
			if e.Op == OpLostPlace {
				if e.W != Wiretap || e.Event != Missing || told >= 0 {
					t.Errorf("%s: told %+v", c.name, e)
				}
				told = before
			}
			before = e.I
		}
		if told != c.behind {
			t.Errorf("%s: it is said behind event %d, want %d", c.name, told, c.behind)
		}
		_ = r.Close()
	}
}

func TestACompressedFileThatBreaksOffIsAGapAndNeverComplete(t *testing.T) {
	var whole bytes.Buffer
	z, err := zstd.NewWriter(&whole)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, get(t, filepath.Join(written(t), "wiretap.ndjson"))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := written(t)
	if err := os.Remove(filepath.Join(dir, "wiretap.ndjson")); err != nil {
		t.Fatal(err)
	}
	for end := range whole.Len() {
		put(t, filepath.Join(dir, "wiretap.ndjson.zst"), whole.String()[:end])
		_, gaps, err := read(dir)
		if err == nil && gaps[Wiretap] == "" {
			t.Fatalf("cut at %d of %d: complete", end, whole.Len())
		}
	}
}

// removed takes events out of the wiretap's file in dir, and makes its trailer fit.
func removed(t *testing.T, dir string, is ...int) {
	t.Helper()
	path := filepath.Join(dir, "wiretap.ndjson")
	text, left, last := get(t, path), 3, 5
	for _, i := range is {
		line := strings.SplitAfter(text, "\n")[1+slices.Index([]int{1, 3, 5}, i)-(3-left)]
		if !strings.Contains(line, fmt.Sprintf(`"i":%d,`, i)) {
			t.Fatalf("%d is not in %s", i, line)
		}
		text = strings.Replace(text, line, "", 1)
		if left--; i == 5 {
			last = 3
		}
	}
	put(t, path, strings.Replace(text, `{"events":3,"last":5}`, fmt.Sprintf(`{"events":%d,"last":%d}`, left, last), 1))
}

func TestAnEventThatWasRemovedIsAGapOfEveryWitnessAlthoughTheTrailersFit(t *testing.T) {
	for want, is := range map[string][]int{"event 1 was recorded": {1}, "event 3 was recorded": {3}, "2 events were recorded and are in no file, the first of them event 1": {1, 3}} {
		dir := written(t)
		removed(t, dir, is...)
		got, gaps, err := read(dir)
		if first := is[0] - 1; len(got) != 5-len(is)+2 || got[first] != int64(is[0]) || got[first+1] != int64(is[0]) {
			t.Errorf("without %v: read %v, want two of the first that is missing in its place, one of each witness", is, got)
		}
		if err != nil || len(gaps) != 2 || !strings.HasPrefix(gaps[Wiretap], want) || gaps[Journal] != gaps[Wiretap] {
			t.Errorf("without %v: read %v, gaps %v, error %v", is, got, gaps, err)
		}
	}
}

func TestWhatABrokenFileCannotHaveHadIsMissedAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		journal int // lines of the journal's file that are left: its header, event 2, event 4
		remove  int
		missed  bool
	}{
		"removed before the file broke off": {2, 1, true},
		"perhaps what came after the break": {2, 3, false},
		"perhaps of a file without a line":  {1, 1, false},
	} {
		dir := written(t)
		removed(t, dir, c.remove)
		path := filepath.Join(dir, "journal.ndjson")
		put(t, path, strings.Join(strings.SplitAfter(get(t, path), "\n")[:c.journal], ""))
		_, gaps, err := read(dir)
		if err != nil || !strings.Contains(gaps[Journal], "no trailer") || (gaps[Wiretap] != "") != c.missed {
			t.Errorf("%s: gaps %v, error %v", name, gaps, err)
		}
	}
}

func TestAHistoryThatSaysThatItsNumbersAreSparseMissesNone(t *testing.T) {
	dir := written(t)
	removed(t, dir, 3)
	for n, w := range []string{"wiretap", "journal"} {
		_, gaps, err := read(dir)
		if err != nil || len(gaps) != 2 {
			t.Errorf("%d of 2 headers say so: gaps %v, error %v", n, gaps, err)
		}
		path := filepath.Join(dir, w+".ndjson")
		put(t, path, strings.Replace(get(t, path), `{"schema":1`, `{"sparse":true,"schema":1`, 1))
	}
	if is, gaps, err := read(dir); err != nil || len(gaps) > 0 || len(is) != 4 {
		t.Errorf("read %v, gaps %v, error %v", is, gaps, err)
	}
}

func TestAMissingFileIsAGap(t *testing.T) {
	dir := written(t)
	if err := os.Remove(filepath.Join(dir, "journal.ndjson")); err != nil {
		t.Fatal(err)
	}
	is, gaps, err := read(dir)
	if err != nil || len(is) != 3 || gaps[Journal] == "" || len(gaps) != 1 {
		t.Errorf("read %v, gaps %v, error %v", is, gaps, err)
	}
}
