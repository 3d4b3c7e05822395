package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoHolders is a history, as anybody may have recorded it, of a key that two sessions hold at once.
func twoHolders(t *testing.T) (run string) {
	t.Helper()
	run = t.TempDir()
	if err := os.Mkdir(filepath.Join(run, "history"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string][]string{"wiretap": nil, "lockdb": nil, "nemesis": nil, "run": nil}
	add := func(w, format string, args ...any) {
		files[w] = append(files[w], fmt.Sprintf(`{"w":%q,`, w)+fmt.Sprintf(format, args...)+"}")
	}
	session := func(who string) string {
		return fmt.Sprintf(`{"table":"lock_session","kind":"insert","new":{"session_id":"session of %s","owner_id":%q,"ttl_ms":"60000"}}`, who, who)
	}
	commit := `"i":%d,"t":%d,"type":"ok","proc":"lockdb","op":"commit","changes":[%s]`
	add("lockdb", commit, 1, int64(1e6), session("ann")+","+session("bob"))
	kind, old := "insert", ""
	for n, who := range []string{"ann", "bob"} {
		i, token := int64(3*n+1), n+41
		call := fmt.Sprintf(`"proc":%q,"op":"acquire","call":%d,"link":"%s→lock-server","key":"k","session":"session of %s"`, who, n+1, who, who)
		add("wiretap", `"i":%d,"t":%d,"type":"invoke","stage":"forwarded",%s`, i+1, (i+1)*1e6, call)
		row := fmt.Sprintf(`{"lock_key":"k","owner_id":%q,"session_id":"session of %s","fencing_token":"%d","ttl_ms":"60000"}`, who, who, token)
		add("lockdb", commit, i+2, (i+2)*1e6, fmt.Sprintf(`{"table":"lock_entry","kind":%q,%s"new":%s}`, kind, old, row))
		kind, old = "update", `"old":`+row+","
		add("wiretap", `"i":%d,"t":%d,"type":"ok","stage":"answered","status":200,"granted":"%d",%s`, i+3, (i+3)*1e6, token, call)
	}
	header := `{"header":{"schema":1,"witness":%q,"witnesses":["wiretap","lockdb","nemesis","run"],"run":"by-hand","seed":"1","started":"2026-01-02T03:04:05Z","config":{"settings":{"workload":"lock","backend":"etcd","nemesis":"none","seed":"1"}}}}`
	for w, events := range files {
		last := map[string]int{"wiretap": 7, "lockdb": 6, "nemesis": 0, "run": 0}[w]
		lines := append([]string{fmt.Sprintf(header, w)}, events...)
		lines = append(lines, fmt.Sprintf(`{"trailer":{"events":%d,"last":%d}}`, len(events), last))
		if err := os.WriteFile(filepath.Join(run, "history", w+".ndjson"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

func TestRecheckFindsWhatNoOrderExplainsAndWritesNothing(t *testing.T) {
	run := twoHolders(t)
	out, status := fenceproof(t, "recheck", run)
	want := "bob was granted key k with token 42, although ann held it with token 41"
	if status != 1 || !strings.Contains(out, want) {
		t.Fatalf("recheck ended with %d:\n%s", status, out)
	}
	first, _ := fenceproof(t, "recheck", "--json", run)
	if again, _ := fenceproof(t, "recheck", "--json", run); again != first || strings.Contains(first, `"page"`) {
		t.Errorf("the verdict names a page that is not there, or is not the same again:\n%s\nand then\n%s", first, again)
	}
	entries, err := os.ReadDir(run)
	if err != nil || len(entries) != 1 {
		t.Errorf("in the run's folder is %v (%v)", entries, err)
	}
	page := filepath.Join(run, "linear", "1.html") // as a verify of this run would have left it
	if err := os.Mkdir(filepath.Dir(page), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte("<!doctype html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if named, _ := fenceproof(t, "recheck", "--json", run); !strings.Contains(named, `"page": "linear/1.html"`) {
		t.Errorf("the verdict does not name the page that is there:\n%s", named)
	}
}
