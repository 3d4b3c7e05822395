package model

import (
	"slices"
	"sync"
	"testing"
)

// finds explores a variant without late requests, once.
func finds(t *testing.T, v Variant) Violations {
	t.Helper()
	once, _ := explored.LoadOrStore(v, sync.OnceValues(func() (Exploration, error) { return Expect(v, Worlds(0)...) }))
	e, err := once.(func() (Exploration, error))()
	if err != nil {
		t.Fatal(err)
	}
	return e.Found
}

var explored sync.Map // of Variant to what finds it once

func TestAMaskedGuardShowsOnlyWithoutAllThatItStandsBehind(t *testing.T) {
	for _, m := range Masks() {
		t.Run(m.Guard.String()+" behind "+m.Behind.String(), func(t *testing.T) {
			if m.Guard != OneInFlight && !*everyRow {
				t.Skip("with -model.all")
			}
			t.Parallel()
			if got := finds(t, Without(m.Guard)); got != 0 {
				t.Errorf("alone it is not masked: %v", got.List())
			}
			if got := finds(t, m.Bare()); !got.Has(m.Shows) {
				t.Errorf("without all of them %v do not include %v", got.List(), m.Shows)
			}
			if got := finds(t, Variant{Off: m.Behind}); got.Has(m.Shows) {
				t.Errorf("%v falls although %v is there", m.Shows, m.Guard)
			}
			for _, g := range AllGuards() {
				if !m.Behind.Has(g) {
					continue
				}
				kept := Variant{Off: m.Bare().Off &^ GuardSet(g)}
				without := Variant{Off: m.Behind &^ GuardSet(g)}
				if finds(t, kept).Has(m.Shows) && !finds(t, without).Has(m.Shows) {
					t.Errorf("%v is enough to see it without %v", m.Behind&^GuardSet(g), g)
				}
			}
		})
	}
}

// The must and may sets of the negative controls: only executors are stopped, the rail answers every call, and the
// account can pay whatever two executors may pay twice.
func TestTheFencingSwitchesBreakWhatTheNegativeControlsMustSee(t *testing.T) {
	w := Plenty()
	w.Opening, w.Fates = 8, []Fate{Acknowledged}
	for _, control := range []struct {
		variant   Variant
		must, may []string
	}{
		{Variant{PaymentOff: true}, []string{"INV-01", "INV-03", "INV-05"}, []string{"INV-08", "LIVE-01"}},
		{Variant{RailOff: true}, []string{"INV-02", "INV-05"}, []string{"INV-03"}},
		{Variant{PaymentOff: true, RailOff: true}, []string{"INV-01", "INV-02", "INV-03", "INV-05"}, []string{"INV-08", "LIVE-01"}},
	} {
		e, err := Expect(control.variant, w)
		if err != nil {
			t.Fatal(err)
		}
		got := e.Invariants()
		for _, id := range control.must {
			if !slices.Contains(got, id) {
				t.Errorf("%v: %s holds and must fall", control.variant, id)
			}
		}
		for _, id := range got {
			if !slices.Contains(control.must, id) && !slices.Contains(control.may, id) {
				t.Errorf("%v: %s falls and must not", control.variant, id)
			}
		}
	}
}

func TestDeclinesAndTheOperatorBreakNothing(t *testing.T) {
	for _, w := range Worlds(0) {
		w.Operator, w.Fates = true, append(w.Fates, Declined)
		if e, err := Expect(Variant{}, w); err != nil || e.Found != 0 {
			t.Errorf("%v falls: %v", e.Found.List(), err)
		}
	}
}

func TestAGuardWithAMaskNeverRefusesAlone(t *testing.T) {
	e, err := Expect(Variant{}, Worlds(0)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Masks() {
		// One payout at a time is a rule that executors keep by themselves, as long as no lease of theirs runs out.
		if alone := e.Alone.Has(m.Guard); alone != (m.Guard == OneInFlight) {
			t.Errorf("%v refuses alone: %v", m.Guard, alone)
		}
	}
	for _, g := range []Guard{ClaimFence, MoveFence, PostFence, OneAttempt, ReserveAmbiguous} {
		if !e.Alone.Has(g) {
			t.Errorf("%v never refuses alone", g)
		}
	}
}
