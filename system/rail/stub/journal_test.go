package stub

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestARestartedRailKnowsItsTransfersAndCountsTheLagFromTheirTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	now := time.Now()
	for ref, at := range map[string]time.Time{"old": now.Add(-time.Hour), "new": now, "from a clock that was moved": now.Add(24 * time.Hour)} {
		if err := j.Append(Transfer{RailReference: "r-" + ref, ClientRef: ref, AmountMinor: 1, Currency: "EUR", AcceptedAt: at}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, path)
	defer j.Close()
	for ref, want := range map[string]int{"old": 1, "new": 0, "from a clock that was moved": 0} {
		if got := j.Find(ref, time.Minute); len(got) != want {
			t.Errorf("%s with a lag of a minute: %+v", ref, got)
		}
		if got := j.Find(ref, 0); len(got) != 1 {
			t.Errorf("%s without a lag: %+v", ref, got)
		}
	}
}

func TestATornLastLineIsEndedAndNothingIsTakenAway(t *testing.T) {
	whole := `{"railReference":"r-1","clientRef":"p-1","amountMinor":1,"currency":"EUR","acceptedAt":"2026-01-02T03:04:05Z"}`
	for name, c := range map[string]struct {
		tail string
		want int
	}{"half a line": {whole[:40], 2}, "a line without its end": {strings.Replace(whole, "r-1", "r-2", 1), 3}, "nothing torn": {"", 2}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			before := whole + "\n" + c.tail
			if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			b := newBench(t, path, Options{})
			if _, err := b.submit("p-1"); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(path)
			if err != nil || !strings.HasPrefix(string(after), before) {
				t.Errorf("the journal was rewritten (%v):\n%s", err, after)
			}
			if got := lines(t, path); len(got) != c.want || len(b.lookUp("p-1")) != c.want {
				t.Errorf("journal %+v, look-up %+v, want %d of each", got, b.lookUp("p-1"), c.want)
			}
		})
	}
}

// fullDisk takes only so many bytes of the next write.
type fullDisk struct {
	file
	room int
}

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.room >= len(b) {
		return d.file.Write(b)
	}
	n, err := d.file.Write(b[:d.room])
	d.room = 1 << 20 // space again
	return n, errors.Join(err, syscall.ENOSPC)
}

func TestADiskThatFillsUpInsideAWriteTearsOneLineAndNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	batch := func(from int) (b []*entry) {
		for i := from; i < from+3; i++ {
			v := Transfer{RailReference: fmt.Sprint("r-", i), ClientRef: "p-1", AmountMinor: 1, Currency: "EUR"}
			line, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, &entry{v, append(line, '\n'), make(chan error, 1)})
		}
		return b
	}
	first := batch(0)
	j.file = &fullDisk{j.file, len(first[0].line) + 10}
	if !j.flush(first, false) {
		t.Error("the file ends inside a line, and nobody noticed")
	}
	for _, e := range first {
		if err := <-e.done; !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("answered %v: whether it moved is not known to the caller", err)
		}
	}
	if j.flush(batch(3), true) {
		t.Error("the file ends with a line, and nobody noticed")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, v := range lines(t, path) {
		refs = append(refs, v.RailReference)
	}
	var known []string
	for _, v := range j.Find("p-1", 0) {
		known = append(known, v.RailReference)
	}
	if want := "[r-0 r-3 r-4 r-5]"; fmt.Sprint(refs) != want || fmt.Sprint(known) != want {
		t.Errorf("the file has %v, the look-up shows %v, want %s", refs, known, want)
	}
}

func TestASecondRailCannotWriteTheSameJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	if second, err := OpenJournal(path); err == nil {
		_ = second.Close()
		t.Error("two rails write one journal")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openJournal(t, path).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAClosedJournalMovesNoMoney(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(Transfer{RailReference: "r"}); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	if got := lines(t, path); len(got) != 0 {
		t.Errorf("journal %+v", got)
	}
}
