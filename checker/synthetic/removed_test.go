package synthetic_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/invariant"
	"fenceproof/checker/synthetic"
	"fenceproof/checker/verdict"
)

// An event that was removed may be the effect that a later answer promised. From where its number is missing nobody can say
// that anything never came.
func TestAHealthyHistoryFromWhichAnEventWasRemovedAccusesNobody(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if _, err := synthetic.Write(dir, synthetic.Options{Seed: 3, Backend: backend, Events: 900, Executors: 3, Accounts: 3}); err != nil {
				t.Fatal(err)
			}
			r, err := history.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var events []history.Event
			for {
				var e history.Event
				if err = r.Next(&e); err != nil {
					break
				}
				events = append(events, e)
			}
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			for i := range events {
				j := invariant.NewJudge(verdict.Settings{Workload: "payout", Backend: backend, Nemesis: "pause", Fencing: "on"})
				gaps := map[history.Witness]string{}
				for k := range events {
					e := events[k]
					if k == i { // as a Reader tells it
						for _, w := range history.Witnesses() {
							gaps[w] = fmt.Sprintf("event %d is in no file", e.I)
							j.Observe(&history.Event{I: e.I, W: w, T: e.T, Type: contract.Info, Op: history.OpLostPlace, Msg: gaps[w]})
						}
						continue
					}
					j.Observe(&e)
				}
				for _, inv := range j.Conclude(gaps) {
					if inv.Found > 0 || inv.Status == verdict.Pass {
						t.Fatalf("without event %d (%s, %s %s): %s is %s: %s", events[i].I, events[i].W, events[i].Op, events[i].Stage, inv.ID, inv.Status, inv.Reason)
					}
				}
			}
		})
	}
}
