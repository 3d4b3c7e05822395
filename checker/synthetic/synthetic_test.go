package synthetic_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fenceproof/checker/history"
	"fenceproof/checker/invariant"
	"fenceproof/checker/synthetic"
	"fenceproof/checker/verdict"
)

// judged makes a history and judges it from its files alone.
func judged(t *testing.T, o synthetic.Options) (synthetic.Made, map[string]verdict.Invariant) {
	t.Helper()
	dir := t.TempDir()
	made, err := synthetic.Write(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := history.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var config struct {
		Settings verdict.Settings `json:"settings"`
	}
	if err := json.Unmarshal(r.Header().Config, &config); err != nil {
		t.Fatal(err)
	}
	j := invariant.NewJudge(config.Settings)
	var e history.Event
	for {
		if err = r.Next(&e); err != nil {
			break
		}
		j.Observe(&e)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if gaps := r.Gaps(); len(gaps) > 0 {
		t.Fatalf("the history is not whole: %v", gaps)
	}
	out := map[string]verdict.Invariant{}
	for _, inv := range j.Conclude(r.Gaps()) {
		out[inv.ID] = inv
	}
	return made, out
}

var backends = []string{"pg", "etcd"}

func TestAHealthyHistoryPassesEveryInvariant(t *testing.T) {
	for n := range uint64(24) {
		seed, backend := n/2, backends[n%2]
		t.Run(fmt.Sprint(backend, " ", seed), func(t *testing.T) {
			t.Parallel()
			events := []int{1500, 6000, 20_000}[seed%3]
			made, invariants := judged(t, synthetic.Options{Seed: seed, Backend: backend, Events: events, Executors: 2 + int(seed%5), Accounts: 1 + int(seed*7%20)})
			for id, inv := range invariants {
				if inv.Found > 0 || inv.Status == verdict.Inconclusive || events > 10_000 && inv.Status != verdict.Pass {
					t.Errorf("%s is %s: %s", id, inv.Status, inv.Reason)
				}
				if inv.Unresolved > inv.Checked/20 {
					t.Errorf("%s left %d unresolved, and checked %d", id, inv.Unresolved, inv.Checked)
				}
			}
			if made.Events < int64(events) || made.Events > int64(events)*3/2+3000 {
				t.Errorf("%d events were made, %d were asked for", made.Events, events)
			}
			for state, n := range made.Payouts {
				if !slices.Contains([]string{"POSTED", "FAILED"}, state) {
					t.Errorf("%d payouts are %s at the end", n, state)
				}
			}
		})
	}
}

func TestALongHistoryMeetsEveryDangerOfARun(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) { t.Parallel(); meetsEveryDanger(t, backend) })
	}
}

func meetsEveryDanger(t *testing.T, backend string) {
	made, invariants := judged(t, synthetic.Options{Seed: 7, Backend: backend, Events: 60_000})
	// Nobody revokes in a payout run, asks paydb for its balances, renews a grant that is over, or has to wait for a processor.
	aside := []string{"INV-04 revocations", "INV-03 balances_selected", "INV-06 stale_renewals", "SDK-01 starved"}
	if backend == "etcd" {
		// A lapsed grant is no row there that could be taken over; and hardly any stale request gets past the fence.
		aside = append(aside, "INV-04 takeovers", "INV-08 transitions_refused")
	}
	for id, inv := range invariants {
		for counter, n := range inv.Danger {
			if n == 0 && !slices.Contains(aside, id+" "+counter) {
				t.Errorf("%s never met %s", id, counter)
			}
		}
	}
	if made.Pauses < 10 || made.RefusedPayment < 10 || made.RefusedRail < 10 {
		t.Errorf("%d pauses led to %d and %d refusals", made.Pauses, made.RefusedPayment, made.RefusedRail)
	}
	if made.Payouts["FAILED"] == 0 {
		t.Error("no payout failed")
	}
	if size := made.Bytes / made.Events; size < 350 || size > 450 {
		t.Errorf("an event has %d bytes, those of a run about 400", size)
	}
}

func TestAPlantedViolationBreaksExactlyTheInvariantsItNames(t *testing.T) {
	for _, v := range synthetic.Violations() {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				backend, at := backends[seed%2], []float64{0.01, 0.9}[seed/2]
				if !v.On(backend) {
					continue
				}
				_, invariants := judged(t, synthetic.Options{Seed: seed, Backend: backend, Events: 3000, Violation: v, At: at})
				for id, inv := range invariants {
					named := slices.Contains(v.Breaks(), id)
					if named != (inv.Found > 0) {
						t.Errorf("seed %d, at %g on %s: %s found %d: %s", seed, at, backend, id, inv.Found, inv.Reason)
					}
				}
			}
		})
	}
}

func TestTheSameSeedMakesTheSameHistory(t *testing.T) {
	o := synthetic.Options{Seed: 11, Events: 8000, Violation: synthetic.StaleClaim}
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if _, err := synthetic.Write(dir, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range history.Witnesses() {
		name := string(w) + ".ndjson"
		x, errX := os.ReadFile(filepath.Join(a, name))
		y, errY := os.ReadFile(filepath.Join(b, name))
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Errorf("%s differs (%v, %v)", name, errX, errY)
		}
	}
	o.Seed++
	other := t.TempDir()
	if _, err := synthetic.Write(other, o); err != nil {
		t.Fatal(err)
	}
	x, _ := os.ReadFile(filepath.Join(a, "wiretap.ndjson"))
	y, _ := os.ReadFile(filepath.Join(other, "wiretap.ndjson"))
	if bytes.Equal(x, y) {
		t.Error("another seed made the same history")
	}
}

func TestAHistoryIsNotWrittenOverAnother(t *testing.T) {
	dir := t.TempDir()
	o := synthetic.Options{Events: 100}
	if _, err := synthetic.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	if _, err := synthetic.Write(dir, o); !errors.Is(err, os.ErrExist) {
		t.Errorf("the second one: %v", err)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, o := range []synthetic.Options{{Events: -1}, {At: 1.1}, {At: -0.1}, {Violation: "no-such"}, {Executors: -1}, {Accounts: -1}, {Backend: "oracle"},
		{Backend: "etcd", Violation: synthetic.UnloggedRenewal}} {
		if _, err := synthetic.Write(filepath.Join(t.TempDir(), "h"), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
