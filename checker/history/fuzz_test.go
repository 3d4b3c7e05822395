package history

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// FuzzReader: whatever stands in the files of a history, reading it ends, with its events in order or with an error that names the
// file, and says of a file without a trailer that it is not whole.
func FuzzReader(f *testing.F) {
	header := func(w string) string {
		return `{"header":{"schema":1,"witness":"` + w + `","witnesses":["wiretap","lockdb"],"run":"r","seed":"7","started":"2026-01-02T03:04:05Z"}}` + "\n"
	}
	tap := header("wiretap") + `{"i":1,"w":"wiretap","t":5,"type":"invoke","proc":"p","op":"acquire","stage":"forwarded","call":1,"key":"k"}` + "\n" +
		`{"i":3,"w":"wiretap","t":9,"type":"ok","proc":"p","op":"acquire","stage":"answered","call":1,"key":"k","status":200,"granted":"41"}` + "\n" + `{"trailer":{"events":2,"last":3}}` + "\n"
	lock := header("lockdb") + `{"i":2,"w":"lockdb","t":7,"type":"ok","proc":"lockdb","op":"commit","changes":[{"table":"lock_entry","kind":"insert","new":{"lock_key":"k"}}]}` + "\n" + `{"trailer":{"events":1,"last":2}}` + "\n"
	for form := range byte(3) {
		f.Add([]byte(tap), []byte(lock), form)
	}
	f.Add([]byte(tap[:len(tap)-40]), []byte(lock[:30]), byte(0))
	f.Add(squeezed(f, []byte(tap), ".zst"), squeezed(f, []byte(lock), ".zst"), byte(3))
	f.Fuzz(func(t *testing.T, a, b []byte, form byte) {
		dir := t.TempDir()
		suffix := []string{"", ".gz", ".zst", ".zst", ".gz"}[form%5]
		for name, text := range map[string][]byte{"wiretap": a, "lockdb": b} {
			if s := suffix; form%5 == 1 || form%5 == 2 { // well compressed, whatever it is
				text = squeezed(t, text, s)
			}
			if err := os.WriteFile(filepath.Join(dir, name+".ndjson"+suffix), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Open(dir)
		if err != nil {
			return
		}
		defer r.Close()
		var last Event
		for {
			var e Event
			err := r.Next(&e)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				if again := r.Next(&e); again == nil || again.Error() != err.Error() {
					t.Fatalf("%v, and then %v", err, again)
				}
				return
			}
			if e.Op == OpLostPlace && e.Event == Missing {
				if e.I < last.I || e.T < last.T || e.W == "" {
					t.Fatalf("%+v comes after %+v", e, last)
				}
				continue
			}
			if e.I <= last.I || e.T < last.T || e.W == "" {
				t.Fatalf("%+v comes after %+v", e, last)
			}
			last = e
		}
		if whole := len(r.Gaps()) == 0; whole && form%5 < 3 && !bytes.Contains(a, []byte("trailer")) {
			t.Fatalf("a file without a trailer is whole: %q", a)
		}
	})
}

// squeezer is made once: each costs more than what it is to squeeze here.
var squeezer, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<16))

// squeezed is text compressed.
func squeezed(t testing.TB, text []byte, suffix string) []byte {
	if suffix == ".zst" {
		return squeezer.EncodeAll(text, nil)
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
