package soak

import (
	"testing"

	"fenceproof/checker/verdict"
)

// A run of a nemesis that breaks something on purpose says violated of that; a soak asks what it is worth otherwise.
func TestADeclaredRunThatMetTooLittleIsCalledNotExercised(t *testing.T) {
	declares := func() *verdict.Expectation {
		return &verdict.Expectation{DeclaredBy: "restore-unguarded", Must: []string{"INV-04"}, Across: []string{"INV-04"}}
	}
	fell := verdict.Invariant{ID: "INV-04", Status: verdict.Violated, Found: 1, Across: 1, Danger: map[string]int64{"rewinds": 1, "regrants_across": 1}}
	held := verdict.Invariant{ID: "INV-04", Status: verdict.Pass, Checked: 1}
	rest := func(s verdict.Status) verdict.Invariant {
		return verdict.Invariant{ID: "DUR-01", Status: s, Reason: "so it is"}
	}
	for name, c := range map[string]struct {
		nemesis string
		of      []verdict.Invariant
		then    func(v *verdict.Run)
		want    verdict.Status
	}{
		"all as declared":                         {"restore-unguarded", []verdict.Invariant{fell, rest(verdict.Pass)}, nil, verdict.Pass},
		"the other nemesis did nothing":           {"pause,restore-unguarded", []verdict.Invariant{fell, rest(verdict.Pass)}, nil, verdict.NotExercised},
		"something else met nothing":              {"restore-unguarded", []verdict.Invariant{fell, rest(verdict.NotExercised)}, nil, verdict.NotExercised},
		"something else is not known":             {"restore-unguarded", []verdict.Invariant{fell, rest(verdict.Inconclusive)}, nil, verdict.Inconclusive},
		"what had to fall did not":                {"restore-unguarded", []verdict.Invariant{held, rest(verdict.Pass)}, nil, verdict.NotExercised},
		"what had to fall did not, and cut short": {"restore-unguarded", []verdict.Invariant{held, rest(verdict.Pass)}, func(v *verdict.Run) { v.Doubt("cut short") }, verdict.Inconclusive},
		"a fault was not seen":                    {"restore-unguarded", []verdict.Invariant{fell, rest(verdict.Pass)}, func(v *verdict.Run) { v.Lack("not seen") }, verdict.NotExercised},
		"it was cut short":                        {"restore-unguarded", []verdict.Invariant{fell, rest(verdict.Pass)}, func(v *verdict.Run) { v.Doubt("cut short") }, verdict.Inconclusive},
		"something else fell":                     {"restore-unguarded", []verdict.Invariant{fell, rest(verdict.Violated)}, nil, verdict.Violated},
	} {
		v := &verdict.Run{Settings: verdict.Settings{Workload: "payout", Backend: "pg", Nemesis: c.nemesis}, Expect: declares(), Invariants: c.of}
		if v.Conclude(); c.then != nil {
			c.then(v)
		}
		if l := lineOf(Task{}, v); l.Status != c.want || l.Declared != (c.want == verdict.Pass) {
			t.Errorf("%s: %s, declared %t, want %s; because %q", name, l.Status, l.Declared, c.want, l.Reason)
		}
	}
}
