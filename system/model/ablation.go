package model

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// stateLimit bounds one exploration; the largest variant of the table has a tenth of it.
const stateLimit = 50_000_000

// Expect says what to expect of a variant: everything that falls in any of the worlds, each with a shortest schedule
// over all of them. States are added up.
func Expect(v Variant, worlds ...World) (Exploration, error) {
	all := Exploration{Schedules: map[Violation][]Step{}}
	never := ViolationSet(NeverPosted)
	for _, w := range worlds {
		p := Protocol{w, v}
		e, err := p.Explore(stateLimit)
		if err != nil {
			return Exploration{}, fmt.Errorf("variant %v: %w", v, err)
		}
		all.States += e.States
		all.Alone |= e.Alone
		never &= e.Found // one world that posts is enough
		all.Found |= e.Found &^ ViolationSet(NeverPosted)
		for f, schedule := range e.Schedules {
			if known, ok := all.Schedules[f]; !ok || len(schedule) < len(known) {
				all.Schedules[f] = schedule
			}
		}
	}
	all.Found |= never
	return all, nil
}

// Invariants are the ids of the invariants that fall, in order.
func (e Exploration) Invariants() []string {
	var ids []string
	for _, v := range e.Found.List() {
		ids = append(ids, v.Invariant())
	}
	slices.SortFunc(ids, cmp.Compare)
	return slices.Compact(ids)
}

// String names what is missing: guards with a minus, mistakes with a tilde.
func (v Variant) String() string {
	var parts []string
	for _, g := range AllGuards() {
		if v.Off.Has(g) {
			parts = append(parts, "−"+g.String())
		}
	}
	for m := range mistakeCount {
		if v.Mistakes.Has(m) {
			parts = append(parts, "~"+m.String())
		}
	}
	if v.PaymentOff {
		parts = append(parts, "payment off")
	}
	if v.RailOff {
		parts = append(parts, "rail off")
	}
	if parts == nil {
		return "whole"
	}
	return strings.Join(parts, " ")
}

// Without is the variant that lacks these guards.
func Without(guards ...Guard) Variant { return Variant{Off: GuardSet(guards...)} }

// With is the variant with these mistakes.
func With(mistakes ...Mistake) Variant { return Variant{Mistakes: MistakeSet(mistakes...)} }

// Row is one line of the ablation table.
type Row struct {
	Variant Variant
	Exploration
}

// Table explores the variants in the worlds, as many at once as the machine has processors, and returns them in order.
func Table(variants []Variant, worlds ...World) ([]Row, error) {
	rows := make([]Row, len(variants))
	errs := make([]error, len(variants))
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, v := range variants {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			rows[i].Variant = v
			rows[i].Exploration, errs[i] = Expect(v, worlds...)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}
