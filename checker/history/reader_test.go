package history

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"fenceproof/checker/contract"
)

// written makes a small complete history of two witnesses in a fresh folder: events 1, 3, 5 of the wiretap, 2, 4 of the
// journal.
func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range []struct {
		w  Witness
		is []int64
	}{{Wiretap, []int64{1, 3, 5}}, {Journal, []int64{2, 4}}} {
		var b bytes.Buffer
		h := header()
		h.Witnesses = []Witness{Wiretap, Journal}
		w, err := NewWriter(&b, f.w, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.is {
			if err := w.Write(&Event{I: i, W: f.w, T: i * 10, Type: contract.Info, Msg: "event"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Complete(); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, string(f.w)+".ndjson"), b.String())
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// read reads the history in dir to its end: the numbers of its events, the gaps, and the error that is not io.EOF.
func read(dir string) (is []int64, gaps map[Witness]string, err error) {
	r, err := Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = r.Close() }()
	for {
		var e Event
		if err := r.Next(&e); err == io.EOF {
			return is, r.Gaps(), nil
		} else if err != nil {
			return is, nil, err
		}
		if e.Msg != brokenOff {
			is = append(is, e.I)
		}
	}
}

func TestAHistoryIsReadInOrderWhateverItsFilesAreCompressedWith(t *testing.T) {
	pack := map[string]func(io.Writer) io.WriteCloser{
		".zst": func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
		".gz":  func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	}
	for _, suffix := range []string{"", ".zst", ".gz"} {
		t.Run("as .ndjson"+suffix, func(t *testing.T) {
			dir := written(t)
			if suffix != "" {
				plain := filepath.Join(dir, "wiretap.ndjson")
				var b bytes.Buffer
				z := pack[suffix](&b)
				if _, err := io.WriteString(z, get(t, plain)); err != nil {
					t.Fatal(err)
				}
				if err := z.Close(); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(plain); err != nil {
					t.Fatal(err)
				}
				put(t, plain+suffix, b.String())
			}
			is, gaps, err := read(dir)
			if err != nil || len(gaps) > 0 || !reflect.DeepEqual(is, []int64{1, 2, 3, 4, 5}) {
				t.Errorf("read %v, gaps %v, error %v", is, gaps, err)
			}
		})
	}
}

func TestAHeaderThatWasChangedInOneFileIsRefused(t *testing.T) {
	for what, change := range map[string]func(h *Header){
		"seed":      func(h *Header) { h.Seed++ },
		"config":    func(h *Header) { h.Config = json.RawMessage(`{"nemesis":"none"}`) },
		"plan":      func(h *Header) { h.Plan = json.RawMessage(`{"steps":[]}`) },
		"versions":  func(h *Header) { h.Versions = map[string]string{"postgres": "1"} },
		"witnesses": func(h *Header) { h.Witnesses = []Witness{Wiretap} },
		"started":   func(h *Header) { h.Started = h.Started.Add(time.Second) },
	} {
		dir := written(t)
		path := filepath.Join(dir, "journal.ndjson")
		first, rest, _ := strings.Cut(get(t, path), "\n")
		var line struct {
			Header Header `json:"header"`
		}
		if err := json.Unmarshal([]byte(first), &line); err != nil {
			t.Fatal(err)
		}
		change(&line.Header)
		changed, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		put(t, path, string(changed)+"\n"+rest)
		if _, _, err := read(dir); err == nil || !strings.HasSuffix(err.Error(), "their headers differ in "+what+": one of the two was changed") {
			t.Errorf("%s changed in one file: %v", what, err)
		}
	}
}

func TestAFileThatWasTamperedWithIsRefusedWithFileAndLine(t *testing.T) {
	cases := map[string]struct {
		edit func(lines []string) []string
		want string // part of the error
	}{
		"a torn line in the middle": {func(l []string) []string { l[2] = l[2][:20] + "\n"; return l }, "wiretap.ndjson:3: column"},
		"an empty line":             {func(l []string) []string { l[1] = "\n"; return l }, "wiretap.ndjson:2: column"},
		"a line that was removed":   {func(l []string) []string { return append(l[:2], l[3:]...) }, "wiretap.ndjson:4: the trailer counts 3"},
		"a line that was doubled":   {func(l []string) []string { return append(l[:2], l[1:]...) }, "wiretap.ndjson:3: event 1 comes after event 1"},
		"two lines exchanged":       {func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }, "wiretap.ndjson:3: event 1 comes after event 3"},
		"an event without number":   {func(l []string) []string { l[1] = "{\"w\":\"wiretap\"}\n"; return l }, "wiretap.ndjson:2: event 0"},
		"another witness's event":   {func(l []string) []string { l[1] = strings.Replace(l[1], "wiretap", "paydb", 1); return l }, "wiretap.ndjson:2: event 1 is of witness"},
		"another file's number":     {func(l []string) []string { l[2] = strings.Replace(l[2], `"i":3`, `"i":2`, 1); return l }, "event 2 is in another file"},
		"a clock that goes back":    {func(l []string) []string { l[2] = strings.Replace(l[2], `"t":30`, `"t":15`, 1); return l }, "recorded before"},
		"more after the trailer":    {func(l []string) []string { return append(l, l[1]) }, "wiretap.ndjson:6: something follows the trailer"},
		"no header":                 {func(l []string) []string { return l[1:] }, "wiretap.ndjson:1: this is no header"},
		"a later version":           {func(l []string) []string { l[0] = strings.Replace(l[0], `"schema":1`, `"schema":2`, 1); return l }, "version 2 of the format"},
		"another run's header":      {func(l []string) []string { l[0] = strings.Replace(l[0], "pause-7", "pause-8", 1); return l }, "a folder holds one run"},
		"another witness's header":  {func(l []string) []string { l[0] = strings.Replace(l[0], `"wiretap"`, `"logs"`, 1); return l }, "wiretap.ndjson:1: the header says"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := written(t)
			path := filepath.Join(dir, "wiretap.ndjson")
			lines := strings.SplitAfter(strings.TrimSuffix(get(t, path), "\n"), "\n")
			lines[len(lines)-1] += "\n"
			put(t, path, strings.Join(c.edit(lines), ""))
			if _, _, err := read(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestAHistoryOfLaterProgramsOfThisVersionIsReadWithWhatItHasMore(t *testing.T) {
	dir := written(t)
	path := filepath.Join(dir, "wiretap.ndjson")
	text := strings.ReplaceAll(get(t, path), `{"i":`, `{"later":{"x":[1,2.5,null]},"i":`)
	text = strings.Replace(text, `{"schema":1`, `{"novel":[true],"schema":1`, 1)
	put(t, path, text)
	is, gaps, err := read(dir)
	if err != nil || len(gaps) > 0 || len(is) != 5 {
		t.Errorf("read %v, gaps %v, error %v", is, gaps, err)
	}
}

func TestAFolderWithoutAHistoryAndOneWithTwoFilesOfAWitnessAreRefused(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("an empty folder is a history")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a folder that is not there is a history")
	}
	dir := written(t)
	put(t, filepath.Join(dir, "wiretap.ndjson.gz"), "")
	if _, err := Open(dir); err == nil {
		t.Error("two files of one witness are a history")
	}
}

func TestWhatIsNoRegularFileIsRefusedAndNotWaitedFor(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a named pipe":       func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link to a device": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t)
			path := filepath.Join(dir, "journal.ndjson")
			if err := errors.Join(os.Remove(path), put(path)); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "journal.ndjson is no regular file") {
				t.Errorf("it opened with error %v", err)
			}
		})
	}
	pipe := filepath.Join(t.TempDir(), "history")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(pipe); err == nil || !strings.Contains(err.Error(), "is no folder") {
		t.Errorf("a named pipe for a folder: %v", err)
	}
}

func TestALineLongerThanEveryBufferIsReadAndOneAboveTheLimitRefused(t *testing.T) {
	dir := written(t)
	path := filepath.Join(dir, "wiretap.ndjson")
	whole := get(t, path)
	put(t, path, strings.Replace(whole, "event", strings.Repeat("e", 3<<20), 1))
	if is, gaps, err := read(dir); err != nil || len(gaps) > 0 || len(is) != 5 {
		t.Errorf("read %v, gaps %v, error %v", is, gaps, err)
	}
	put(t, path, strings.Replace(whole, "event", strings.Repeat("e", MaxLine), 1))
	if _, _, err := read(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprint(MaxLine)) {
		t.Errorf("error %v", err)
	}
}

func TestTheWitnessesOfAHistoryAreAllExpectedWhereItsHeaderNamesNone(t *testing.T) {
	dir := written(t)
	for _, w := range []string{"wiretap", "journal"} {
		path := filepath.Join(dir, w+".ndjson")
		put(t, path, strings.Replace(get(t, path), `"witnesses":["wiretap","journal"],`, "", 1))
	}
	_, gaps, err := read(dir)
	want := map[Witness]string{}
	for _, w := range Witnesses() {
		if w != Wiretap && w != Journal {
			want[w] = "the file is missing"
		}
	}
	if err != nil || !maps.Equal(gaps, want) {
		t.Errorf("gaps %v, error %v", gaps, err)
	}
}
