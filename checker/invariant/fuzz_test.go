package invariant

import (
	"bytes"
	"testing"

	"fenceproof/checker/contract"
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
	const onEtcd, failingOver = 2, 8
	add := func(events []history.Event, how byte) {
		for at := 0; at < len(events); at += 40 { // short ones: what a fuzzer makes of a long text it cannot make small again
			f.Add(line(events[at:min(at+40, len(events))]), how)
		}
	}
	for how := range byte(4) {
		add(healthyOn(map[bool]func() *world{false: bank, true: bankOnEtcd}[how&onEtcd != 0]()).events, how|how<<2)
	}
	for _, how := range []byte{failingOver, onEtcd} {
		w := map[bool]func() *world{false: bank, true: bankOnEtcd}[how&onEtcd != 0]()
		w.record(history.Event{W: history.Nemesis, Type: contract.Invoke, Window: 1, Op: "failover", Proc: contract.LockDB, Phase: "inject"})
		w.acquire("executor-1", "alice")
		rows := w.held("alice")
		w.acquire("executor-2", "bob")
		w.free("bob")
		w.putBack(1, rows...)
		w.events[len(w.events)-2].T = w.events[len(w.events)-3].T // the end of a grant and the next epoch may be told at one time
		w.reissue(1, "executor-3", "alice", 1<<32)
		add(w.events, how)
	}
	f.Add([]byte(`{"w":"lockdb","op":"commit","changes":[{"table":"lock_entry","kind":"update","new":{"lock_key":"k"}}]}`), byte(0))
	f.Add([]byte(`{"w":"lockdb","op":"commit","epoch":9223372036854775807,"changes":[{"table":"lock_entry","kind":"delete"},{"table":"payout","kind":"update","new":{"state":"X"}}]}`+"\n"+`{"w":"nemesis","window":-1,"phase":"healed"}`), byte(3))
	f.Fuzz(func(t *testing.T, text []byte, how byte) {
		s := verdict.Settings{Workload: []string{"payout", "lock"}[how&1], Backend: []string{"pg", "etcd"}[how>>1&1], Nemesis: []string{"pause", "failover"}[how>>3&1], Fencing: "on",
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
