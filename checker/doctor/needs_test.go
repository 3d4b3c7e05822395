package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fenceproof/deploy/vskew"
)

func TestAMachineIsAskedOnlyForWhatARunNeedsAndItsAnswersAreKept(t *testing.T) {
	synctest.Test(t, askedForWhatIsNeeded)
}

func askedForWhatIsNeeded(t *testing.T) {
	var clocks, volumes, memory int
	m := &Machine{
		clocks:  kept(func(context.Context) error { clocks++; return errors.New("no tracing") }),
		volumes: kept(func(context.Context) error { volumes++; return nil }),
		memory:  room(func() (int64, error) { memory++; return 2 << 30, nil }),
	}
	for _, c := range []struct {
		needs Needs
		says  string
	}{
		{Needs{}, ""},
		{Needs{Memory: 512 << 20}, ""},
		{Needs{Memory: 1<<30 + 1}, "2048 MB are available"},
		{Needs{Memory: 3 << 30}, "4096 MB are needed"},
		{Needs{Memory: 512 << 20}, ""},
		{Needs{Clocks: true}, "no tracing"},
		{Needs{Clocks: true, Memory: 1}, "no tracing"},
	} {
		err := m.Lacks(t.Context(), c.needs)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("of a run that needs %+v it says %v, not %q", c.needs, err, c.says)
		}
	}
	if clocks != asks || volumes != 1 || memory != 1+asks {
		t.Errorf("clocks were tried %d times, volumes %d times, memory %d times", clocks, volumes, memory)
	}
	m.volumes = func(context.Context) error { return errors.New("no mounts") }
	if err := m.Lacks(t.Context(), Needs{Memory: 1}); err == nil || !strings.Contains(err.Error(), "no mounts") {
		t.Errorf("where nothing can be mounted it says %v", err)
	}
}

// A moment in which somebody else had the memory, or the processors, ends nobody's run, and leaves nothing out of a soak, which
// has one Machine for hours.
func TestAMachineThatSaysNoIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		noes, asked int
		says        string
	}{{0, 1, ""}, {1, 2, ""}, {2, 3, ""}, {99, 3, "no"}} {
		for name, needs := range map[string]Needs{"clocks": {Clocks: true}, "volumes": {Memory: 1}, "memory": {Memory: 1 << 30}} {
			t.Run(fmt.Sprintf("%s after %d times no", name, c.noes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					asked := map[string]int{}
					m := busy(name, c.noes, asked)
					for range 2 { // the answer stays
						if err := m.Lacks(t.Context(), needs); asked[name] != c.asked || (err == nil) != (c.says == "") {
							t.Errorf("it was asked %d times: %v", asked[name], err)
						}
					}
				})
			})
		}
	}
}

// busy is a machine of which one thing is refused so many times, and that counts what it is asked.
func busy(what string, noes int, asked map[string]int) *Machine {
	probe := func(name string) func(context.Context) error {
		return func(context.Context) error {
			if asked[name]++; name == what && asked[name] <= noes {
				return errors.New("no")
			}
			return nil
		}
	}
	return &Machine{clocks: kept(probe("clocks")), volumes: kept(probe("volumes")), memory: room(func() (int64, error) {
		if probe("memory")(context.Background()) != nil {
			return 1 << 30, nil
		}
		return 8 << 30, nil
	})}
}

// What a probe says that was cut short is not what the machine can do.
func TestAnAnswerToSomebodyWhoGaveUpIsNotKept(t *testing.T) {
	m := busy("clocks", 1, map[string]int{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Lacks(gone, Needs{Clocks: true}); err == nil {
		t.Error("a no is taken for a yes")
	}
	if err := m.Lacks(t.Context(), Needs{Clocks: true}); err != nil {
		t.Errorf("it was kept: %v", err)
	}
}

// Where both can be done here, a machine that was found fit by doctor is the same one to a run.
func TestDoctorAndARunAgreeOnTheMachine(t *testing.T) {
	all := examine(t, Surroundings{Runs: t.TempDir(), Bin: t.TempDir()})
	for name, needs := range map[string]Needs{"clock": {Clocks: true}, "volume": {Memory: 1}} {
		err := NewMachine().Lacks(t.Context(), needs)
		if (err == nil) != (all[name].State == Fine) {
			t.Errorf("doctor says of %s: %+v; a run is told %v", name, all[name], err)
		}
	}
}

func TestWhatMendsAClockDependsOnWhatStoodInTheWay(t *testing.T) {
	for _, c := range []struct {
		err  error
		mend string
	}{
		{fmt.Errorf("move: %w", vskew.ErrUnsupported), "amd64"},
		{fmt.Errorf("move: %w", os.ErrPermission), "trac"},
		{errors.New("its vDSO has no room behind its end"), "another kernel"},
		{fmt.Errorf("move: %w", vskew.ErrLate), "less busy"},
	} {
		got := mendClock(c.err)
		if !strings.Contains(got, c.mend) {
			t.Errorf("%v: %s", c.err, got)
		}
		if c.mend == "less busy" && strings.Contains(got, "kernel") {
			t.Errorf("%v is no matter of the kernel: %s", c.err, got)
		}
		if c.mend == "another kernel" && strings.Contains(got, "PTRACE") {
			t.Errorf("%v is no matter of rights: %s", c.err, got)
		}
	}
}

// A program that goes on saying the true time was not moved, whatever was written into it.
func TestAProgramThatSaysTheTrueTimeIsNotTakenForAMovedOne(t *testing.T) {
	log := t.TempDir() + "/teller"
	if err := os.WriteFile(log, fmt.Appendf(nil, "%d\n%d\n12", time.Now().Add(-time.Hour).UnixNano(), time.Now().UnixNano()), 0o600); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := heard(soon, log, time.Hour); err == nil {
		t.Error("it is")
	}
	if err := heard(t.Context(), log, 0); err != nil {
		t.Error(err)
	}
}
