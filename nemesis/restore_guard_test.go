package nemesis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis/plan"
)

// Whoever lets clients in to a store that was not moved far enough has them granted tokens again, and the run would lay that
// to the system.
func TestNobodyIsLetInToAStoreThatTheGuardDidNotMoveFarEnough(t *testing.T) {
	v, l := &vault{latest: 50, next: 60, fails: map[string]error{}}, newLog()
	_, err := putBack(t, v, l, plan.Restore, long, true)
	if !bySystem(err) || !strings.Contains(err.Error(), "the next token is 60, and ") || !strings.Contains(err.Error(), "had been answered: moved") {
		t.Errorf("the engine says %v", err)
	}
	if got := strings.Join(v.asked, ", "); got != "back up, lose, put back to be guarded, guard" {
		t.Errorf("asked for: %s", got)
	}
	if failed := l.await(t, PhaseFailed, contract.Process(plan.LockStore)); failed.Attrs[AttrKeptOut] == "" {
		t.Errorf("the log says %+v", failed)
	}
}

// What restore-guard does is the system's, and that it cannot be run is the harness's: only in the one case there is nothing that
// the harness has to answer for.
func TestAGuardThatFailsIsToldFromAHarnessThatDoes(t *testing.T) {
	said := errors.New("lockctl restore-guard: exit status 1")
	restore := plan.Step{Fault: plan.Restore, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)}
	nobody := plan.Step{Fault: plan.Pause, Target: "executor-9", At: plan.Duration(time.Millisecond)}
	for name, c := range map[string]struct {
		fails   map[string]error
		latest  int64 // that the backup knows of
		steps   []plan.Step
		keptOut bool // the log says so
		guard   bool // and so does the engine
		words   string
	}{
		"the guard failed":                       {map[string]error{"guard": RunbookError{said}}, 50, []plan.Step{restore}, true, true, said.Error()},
		"the guard failed, and nothing was lost": {map[string]error{"guard": RunbookError{said}}, 1 << 40, []plan.Step{restore}, true, true, said.Error()},
		"the guard could not be run":             {map[string]error{"guard": said}, 50, []plan.Step{restore}, false, false, said.Error()},
		"the backup does not start":              {map[string]error{"put back to be guarded": said}, 50, []plan.Step{restore}, false, false, "the backup was not put in its place"},
		"the guard failed, and the harness too":  {map[string]error{"guard": RunbookError{said}}, 50, []plan.Step{nobody, restore}, true, false, "executor-9"},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := &vault{latest: c.latest, fails: c.fails}, newLog()
			e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 1, Drive: plan.Duration(long), Steps: c.steps}, v, l)
			defer grant(e)()
			if err := e.Run(t.Context()); err == nil || bySystem(err) != c.guard || !strings.Contains(err.Error(), c.words) {
				t.Errorf("the engine says %v", err)
			}
			if slices.Contains(v.asked, "admit") {
				t.Errorf("somebody was let in: asked for %v", v.asked)
			}
			if last := l.events[len(l.events)-1]; last.Phase != PhaseFailed || (last.Attrs[AttrKeptOut] != "") != c.keptOut {
				t.Errorf("the log ends with %+v", last)
			}
		})
	}
}

// Nothing is shown by what meets a store that is half put back, and nobody comes who would ask for anything.
func TestNothingIsDoneToAStoreAfterItsGuardHasFailed(t *testing.T) {
	v, l := &vault{latest: 50, fails: map[string]error{"guard": RunbookError{errors.New("it refuses")}}}, newLog()
	step := plan.Step{Fault: plan.Restore, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)}
	later := plan.Step{Fault: plan.Kill, Target: plan.Target(contract.LockServer), At: plan.Duration(long / 2)}
	e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 2, Drive: plan.Duration(long), Steps: []plan.Step{step, step, later}}, v, l)
	e.patience = long
	stop := grant(e)
	err := e.Run(t.Context())
	stop()
	if got := strings.Join(v.asked, ", "); !bySystem(err) || got != "back up, lose, put back to be guarded, guard" {
		t.Errorf("%v; asked for: %s", err, got)
	}
	for name, want := range map[contract.Process]string{contract.Process(plan.LockStore): "inject seen heal failed failed", contract.LockServer: "failed"} {
		if got := l.phases(name); got != want {
			t.Errorf("the log says of %s %q", name, got)
		}
	}
}
