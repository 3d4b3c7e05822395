package linear

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// world writes a history of one key by hand. Times are milliseconds of the harness's clock; lockdb's clock shows the same
// since dawn. Whatever is committed is recorded at once, unless the witness stalls, and every ten milliseconds a watermark says so.
type world struct {
	etcd   bool
	key    string
	events []history.Event
	calls  int64
	rows   map[string]map[string]string // by key: lock_entry as it stands
	quiet  []span                       // when no watermark comes, ms
	stalls []span                       // of the store's witness, ms: what is committed in one is recorded when that ends
	ttl    int64                        // of leases, ms
}

const (
	key   = "accounts/7"
	lease = 1000 // ms, unless a story says otherwise
)

var dawn = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func clockAt(ms int64) time.Time { return dawn.Add(time.Duration(ms) * time.Millisecond) }

func column(ms int64) string { return clockAt(ms).Format("2006-01-02 15:04:05.000000-07") }

func newWorld() *world { return &world{key: key, rows: map[string]map[string]string{}, ttl: lease} }

// on moves what follows to another key.
func (w *world) on(key string) *world { w.key = key; return w }

// call is a request that was sent at from and answered at to; to 0 is never.
func (w *world) call(from, to int64, proc string, e history.Event) {
	w.calls++
	e.Call, e.W, e.Key, e.Proc = w.calls, history.Wiretap, w.key, contract.Process(proc)
	switch e.Op {
	case contract.OpAcquire, contract.OpRenew, contract.OpRelease:
		e.Session, e.Owner = "session-"+proc, proc
	}
	sent := e
	sent.Type, sent.Stage, sent.T, sent.Status, sent.Code, sent.Granted, sent.Res, sent.Highest = contract.Invoke, history.Forwarded, from*1e6, 0, "", 0, "", 0
	w.events = append(w.events, sent)
	if to == 0 {
		return
	}
	e.Stage, e.T = history.Answered, to*1e6
	e.Type, _ = contract.Completion(e.Op, e.Status, e.Code)
	w.events = append(w.events, e)
}

func (w *world) refused(from, to int64, proc string, op contract.Op, token int64, status int, code contract.Code) {
	w.call(from, to, proc, history.Event{Op: op, Token: token, Status: status, Code: code})
}

func (w *world) commit(at int64, changes ...history.Change) {
	e := history.Event{W: history.LockDB, Type: contract.OK, Proc: contract.LockDB, Op: history.OpCommit, T: w.recorded(at) * 1e6, Changes: changes}
	if !w.etcd {
		e.Committed = clockAt(at).UnixMicro()
	}
	w.events = append(w.events, e)
}

// recorded is when the witness records what is committed at at.
func (w *world) recorded(at int64) int64 {
	for _, s := range w.stalls {
		if s.after < at && at < s.before {
			return s.before
		}
	}
	return at
}

// puts commits a grant; what stands there is taken over.
func (w *world) puts(at int64, proc string, token int64) {
	row := map[string]string{"lock_key": w.key, "owner_id": proc, "session_id": "session-" + proc,
		"fencing_token": strconv.FormatInt(token, 10), "ttl_ms": strconv.FormatInt(w.ttl, 10)}
	if !w.etcd {
		row["acquired_at"], row["expires_at"] = column(at), column(at+w.ttl)
	}
	c := history.Change{Table: "lock_entry", Kind: history.Insert, New: row}
	if old := w.rows[w.key]; old != nil {
		c.Kind, c.Old = history.Update, old
	}
	w.rows[w.key] = row
	w.commit(at, c)
}

// extends commits a renewal.
func (w *world) extends(at int64) {
	old, row := w.rows[w.key], map[string]string{}
	for k, v := range old {
		row[k] = v
	}
	row["expires_at"] = column(at + w.ttl)
	w.rows[w.key] = row
	w.commit(at, history.Change{Table: "lock_entry", Kind: history.Update, Old: old, New: row})
}

// removes commits the end of what stands there, with whatever else changes.
func (w *world) removes(at int64, with ...history.Change) {
	old := w.rows[w.key]
	delete(w.rows, w.key)
	w.commit(at, append([]history.Change{{Table: "lock_entry", Kind: history.Delete, Old: old}}, with...)...)
}

// repeats marks the calls of a story as copies of the one before: nobody has asked for them.
func (w *world) repeats(tell func()) {
	from, of := len(w.events), w.calls
	tell()
	for i := range w.events[from:] {
		if e := &w.events[from+i]; e.W == history.Wiretap {
			e.DupOf = of
		}
	}
}

// The calls below are answered rightly: each has its effect, if any, in the middle.

func (w *world) acquires(from, to int64, proc string, token int64) {
	at := (from + to) / 2
	w.granted(from, to, proc, token, at)
	w.puts(at, proc, token)
}

// granted is an answer alone.
func (w *world) granted(from, to int64, proc string, token, at int64) {
	w.call(from, to, proc, history.Event{Op: contract.OpAcquire, Status: 200, Granted: token,
		Res: fmt.Sprintf(`{"acquiredAt":%q}`, clockAt(at).Format(time.RFC3339Nano))})
}

func (w *world) contended(from, to int64, proc string) {
	w.refused(from, to, proc, contract.OpAcquire, 0, 409, contract.LockContended)
}

func (w *world) renews(from, to int64, proc string, token int64) {
	w.renewed(from, to, proc, token)
	if !w.etcd {
		w.extends((from + to) / 2)
	}
}

func (w *world) renewed(from, to int64, proc string, token int64) {
	w.call(from, to, proc, history.Event{Op: contract.OpRenew, Token: token, Status: 200, Granted: token})
}

func (w *world) releases(from, to int64, proc string, token int64) {
	w.released(from, to, proc, token)
	w.removes((from + to) / 2)
}

func (w *world) released(from, to int64, proc string, token int64) {
	w.call(from, to, proc, history.Event{Op: contract.OpRelease, Token: token, Status: 204})
}

func (w *world) lost(from, to int64, proc string, op contract.Op, token int64) {
	w.refused(from, to, proc, op, token, 409, contract.LockLost)
}

func (w *world) revokes(from, to, token, floor int64) {
	w.call(from, to, "operator", history.Event{Op: contract.OpRevoke, Status: 200, Res: fmt.Sprintf(`{"revokedToken":%d,"newTokenFloor":%d}`, token, floor)})
	w.removes((from+to)/2, w.revocation(token, floor))
}

func (w *world) revocation(token, floor int64) history.Change {
	return history.Change{Table: "lock_revocation", Kind: history.Insert, New: map[string]string{"lock_key": w.key,
		"prev_token": strconv.FormatInt(token, 10), "token_floor": strconv.FormatInt(floor, 10)}}
}

func (w *world) endsSession(at int64, proc string) {
	w.removes(at, history.Change{Table: "lock_session", Kind: history.Delete, Old: map[string]string{"session_id": "session-" + proc}})
}

// history is the story in order, with the signs of life of lockdb: watermarks, and heartbeats that show its clock.
func (w *world) history() []history.Event {
	var last int64
	for i := range w.events {
		last = max(last, w.events[i].T)
	}
	events := slices.Clone(w.events)
	for t := int64(0); t*1e6 <= last+30e6; t += 10 {
		w.calls++
		beat := history.Event{W: history.Wiretap, Op: contract.OpHeartbeat, Call: w.calls, Proc: "clock", Type: contract.Invoke, Stage: history.Forwarded, T: t * 1e6}
		answer := beat
		answer.Type, answer.Stage, answer.Status, answer.T = contract.OK, history.Answered, 200, (t+2)*1e6
		answer.Res = fmt.Sprintf(`{"serverTime":%q}`, clockAt(t+1).Format(time.RFC3339Nano))
		events = append(events, beat, answer)
		if !slices.ContainsFunc(w.quiet, func(s span) bool { return s.after < t && t < s.before }) {
			events = append(events, history.Event{W: history.LockDB, Op: history.OpWatermark, Type: contract.Info, T: w.recorded(t)*1e6 + 1, Covers: t * 1e6})
		}
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	for i := range events {
		events[i].I = int64(i + 1)
	}
	return events
}

// judge checks every key of events in this process.
func judge(t testing.TB, events []history.Event, b Budget) map[string]finding {
	t.Helper()
	return judgeLock(t, events, b, false)
}

// judgeLock does the same for a lock that may be reentrant.
func judgeLock(t testing.TB, events []history.Event, b Budget, reentrant bool) map[string]finding {
	t.Helper()
	s, err := newSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer s.file.Close()
	x := newExtract(s, !slices.ContainsFunc(events, func(e history.Event) bool { return e.W == history.LockDB }))
	x.frame.Reentrant = reentrant
	for i := range events {
		if err := x.observe(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.finish(); err != nil {
		t.Fatal(err)
	}
	out := map[string]finding{}
	for _, name := range s.order {
		entries, _ := s.entries(name)
		k, err := readKey(entries)
		if err != nil {
			t.Fatal(err)
		}
		readings, _ := s.readings()
		c, err := readClock(readings, k.expiries(), x.frame.Steps)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = check(&task{Key: name, Budget: b}, k, x.frameOf(name), c, time.Now().Add(b.Time))
	}
	return out
}

// find is what is found about the one key of the story.
func find(t testing.TB, w *world) finding {
	t.Helper()
	return judge(t, w.history(), Budget{Time: time.Minute})[key]
}

// fine fails the test unless the story can have happened.
func fine(t testing.TB, w *world) finding {
	t.Helper()
	f := find(t, w)
	if f.Sentence != "" || f.Open != "" || f.Twice {
		t.Fatalf("found %q, left open %q, clock put back %t", f.Sentence, f.Open, f.Twice)
	}
	return f
}

// store writes events as the history of a run into a new folder.
func store(t testing.TB, events []history.Event) string {
	t.Helper()
	return storeOf(t, events, history.Wiretap, history.LockDB)
}

// storeOf writes what some witnesses saw.
func storeOf(t testing.TB, events []history.Event, witnesses ...history.Witness) string {
	t.Helper()
	dir := t.TempDir()
	for _, witness := range witnesses {
		var b strings.Builder
		e := json.NewEncoder(&b)
		line := func(v any) {
			if err := e.Encode(v); err != nil {
				t.Fatal(err)
			}
		}
		line(map[string]any{"header": history.Header{Schema: 1, Witness: witness, Witnesses: witnesses, RunID: "r"}})
		var trailer history.Trailer
		for i := range events {
			if events[i].W == witness {
				line(events[i])
				trailer.Events, trailer.Last = trailer.Events+1, events[i].I
			}
		}
		line(map[string]any{"trailer": trailer})
		if err := os.WriteFile(filepath.Join(dir, string(witness)+".ndjson"), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
