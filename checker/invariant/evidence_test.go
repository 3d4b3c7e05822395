package invariant

import (
	"slices"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// The answer to a stale post comes behind the commit that proves it; the story must not be full by then.
func TestTheProofHoldsTheGuiltyAnswerAndTheGrants(t *testing.T) {
	w := bank()
	w.paymentOff = true
	w.do("executor-1", contract.OpPost, "p2", stall(w, contract.OpPost))
	got := judged(w.events, nil)
	for _, id := range []string{"INV-01", "INV-05"} {
		events := got[id].Violations[0].Events
		if !slices.IsSortedFunc(events, func(a, b history.Event) int { return int(a.I - b.I) }) {
			t.Errorf("%s: the events are not in order", id)
		}
		has := func(what string, is func(*history.Event) bool) {
			if !slices.ContainsFunc(events, func(e history.Event) bool { return is(&e) }) {
				t.Errorf("%s: the proof lacks %s", id, what)
			}
		}
		has("the stale post's answer", func(e *history.Event) bool {
			return e.Op == contract.OpPost && e.Token == 44 && e.Stage == history.Answered
		})
		has("the stale holder's grant", func(e *history.Event) bool { return e.Granted == 44 })
		has("the newer holder's grant", func(e *history.Event) bool { return e.Granted == 46 })
		has("the stale commit", func(e *history.Event) bool {
			return len(e.Changes) > 0 && e.Changes[0].New["fence"] == "44" && e.Changes[0].Old["fence"] == "46"
		})
	}
}
