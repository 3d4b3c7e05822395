package invariant

import (
	"bytes"
	"testing"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// FuzzJudge: whatever a history says, no fold panics, and the judge comes to a conclusion about each.
func FuzzJudge(f *testing.F) {
	line := func(events []history.Event) (text []byte) {
		for i := range events {
			text = append(history.AppendEvent(text, &events[i]), '\n')
		}
		return text
	}
	all := healthy().events
	for at := 0; at < len(all); at += 40 { // short ones: what a fuzzer makes of a long text it cannot make small again
		f.Add(line(all[at:min(at+40, len(all))]), byte(at))
	}
	f.Add([]byte(`{"w":"lockdb","op":"commit","epoch":9223372036854775807,"changes":[{"table":"lock_entry","kind":"delete"},{"table":"payout","kind":"update","new":{"state":"X"}}]}`+"\n"+`{"w":"nemesis","window":-1,"phase":"healed"}`), byte(3))
	f.Fuzz(func(t *testing.T, text []byte, how byte) {
		s := verdict.Settings{Workload: []string{"payout", "lock"}[how&1], Backend: []string{"pg", "etcd"}[how>>1&1], Nemesis: "pause", Fencing: "on",
			Services: map[string]string{"LOCK_DEFAULT_TTL": "1s", "RECONCILER_SETTLEMENTWINDOW": "5s"}}
		j := NewJudge(s)
		if how&4 != 0 {
			j.NotRecorded(history.LockDB, history.Nemesis)
		}
		var d history.Decoder
		var last int64
		for one := range bytes.SplitSeq(text, []byte("\n")) {
			var e history.Event
			if d.Decode(one, &e) != nil || e.T < 0 || e.T < last {
				continue // no reader gives that
			}
			last = e.T
			j.Observe(&e)
		}
		found := j.Found()
		for _, inv := range j.Conclude(map[history.Witness]string{}) {
			if inv.Status == "" || inv.Found < 0 || len(inv.Violations) > verdict.MaxViolations || inv.Status == verdict.Pass && inv.Found > 0 {
				t.Fatalf("%+v", inv)
			}
		}
		if found < 0 {
			t.Fatalf("%d were found", found)
		}
	})
}
