package jepsen_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/jepsen"
)

// FuzzImport: whatever the text, it is refused with its place and leaves nothing, or it becomes a whole history that reads back,
// of which an export imports again.
func FuzzImport(f *testing.F) {
	for _, text := range []string{
		"{:type :invoke, :f :acquire, :value nil, :process 0, :time 1, :index 0}\n{:type :ok, :f :acquire, :value nil, :process 0, :time 2, :index 1}\n{:type :info, :f :start, :process :nemesis}",
		"[#jepsen.history.Op{:index 0, :type :invoke, :process 0, :f :release, :value \"u\"}\n#jepsen.history.Op{:type :fail, :process 0, :f :release, :error [:lease-not-found \"gone\"]}]",
		"{:type :invoke :f :acquire :process 1 :value [\"k\" nil] :session \"s\" :ttl-ms 100}{:type :ok :f :acquire :process 1 :value [\"k\" {:client \"c\" :fence 42}]}",
		"{:type :invoke :f :revoke :process 1 :value [\"k\" nil]}{:type :ok :f :revoke :process 1 :value [\"k\" {:fence 42 :floor 43}]}{:type :invoke :f :open-session :process 2}{:type :ok :f :open-session :process 2 :session \"s\" :ttl-ms 9}",
	} {
		f.Add([]byte(text), int64(2000), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, ttl int64, named bool) {
		run := t.TempDir()
		o := jepsen.ImportOptions{TTL: time.Duration(max(0, ttl%1e6)) * time.Millisecond, ValueIsKey: named}
		made, err := jepsen.Import(bytes.NewReader(text), run, o)
		if err != nil {
			var e *jepsen.Error
			if left, _ := os.ReadDir(run); len(left) > 0 || !errors.As(err, &e) || e.Line < 1 || e.Column < 1 {
				t.Fatalf("%v, and there is %v", err, left)
			}
			return
		}
		dir := filepath.Join(run, jepsen.HistoryDir)
		if n := count(t, dir); n != made.Events || made.Open > made.Calls || made.Keys < 0 {
			t.Fatalf("%d events are there, and made is %+v", n, made)
		}
		var out bytes.Buffer
		back, err := jepsen.Export(dir, &out, jepsen.ExportOptions{})
		if made.Keys == 0 && errors.Is(err, jepsen.ErrNoCalls) && out.Len() == 0 {
			return // sessions are no locks
		}
		if err != nil || back.Calls != made.Calls {
			t.Fatalf("%+v of %+v is exported: %v", back, made, err)
		}
		if again, err := jepsen.Import(&out, filepath.Join(run, "again"), jepsen.ImportOptions{}); err != nil || again.Calls != made.Calls || again.Tokens != made.Tokens {
			t.Fatalf("%+v comes back as %+v: %v", made, again, err)
		}
	})
}

// count reads a history to its end, which must be whole.
func count(t *testing.T, dir string) (n int64) {
	r, err := history.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		var e history.Event
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			if gaps := r.Gaps(); len(gaps) > 0 {
				t.Fatal(gaps)
			}
			return n
		} else if err != nil {
			t.Fatal(err)
		}
		n++
	}
}
