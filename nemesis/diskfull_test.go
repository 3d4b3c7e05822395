package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis/plan"
)

// tank is a volume as the engine sees one, and what was done to it. What really happens to a server there, deploy/local and
// the program's own tests see.
type tank struct {
	done   []string
	writes bool  // a full one goes on writing
	fails  int   // how often it is asked in vain to write once it is free
	leaks  bool  // it does not stay full
	breaks error // why it cannot be kept full

	mu   sync.Mutex
	kept int
	more chan struct{} // closed when it was filled up three times
}

func (t *tank) Fill(context.Context) (string, error) {
	t.done = append(t.done, "fill")
	if t.writes {
		return "", errors.New("the server goes on writing")
	}
	return "0 bytes are free", nil
}

func (t *tank) ExhaustLog(context.Context) (string, error) {
	t.done = append(t.done, "exhaust")
	return "PANIC", nil
}

func (t *tank) KeepFull(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept++; t.kept == 3 && t.more != nil {
		close(t.more)
	}
	return t.breaks
}

func (t *tank) Full(context.Context) (string, error) {
	t.done = append(t.done, "look")
	if t.leaks {
		return "", errors.New("16 MB are free")
	}
	return "0 bytes are free", nil
}

func (t *tank) Free(context.Context) error {
	t.done = append(t.done, "free")
	return nil
}

func (t *tank) Writes(context.Context) error {
	if t.fails--; t.fails >= 0 {
		return errors.New("it is starting up")
	}
	t.done = append(t.done, "writes")
	return nil
}

// tanks are victims whose paydb is on a volume.
type tanks struct {
	victims
	paydb *tank
}

func (t tanks) Volume(name contract.Process) (Volume, error) {
	if name != contract.PayDB {
		return nil, fmt.Errorf("%s has no volume", name)
	}
	return t.paydb, nil
}

// fill lets an engine carry out one step on paydb's tank.
func fill(t *testing.T, tk *tank, s plan.Step) (*Engine, *log) {
	t.Helper()
	l := newLog()
	s.Fault, s.Target = plan.DiskFull, plan.Target(contract.PayDB)
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{s}}, tanks{victims{}, tk}, l)
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, l
}

func TestAFullDiskIsFreedAndIsHealedWhenTheServerWritesAgain(t *testing.T) {
	tk := &tank{fails: 2}
	e, l := fill(t, tk, plan.Step{For: plan.Duration(time.Millisecond)})
	if got := strings.Join(tk.done, " "); got != "fill look free free free writes" {
		t.Errorf("it did %s", got)
	}
	seen := l.await(t, PhaseSeen, contract.PayDB)
	if got := l.phases(contract.PayDB); got != "inject seen heal healed" || seen.Msg != "0 bytes are free" || e.Status().Windows != 1 {
		t.Errorf("the log says %q, %q; the engine counts %+v", got, seen.Msg, e.Status())
	}
}

func TestALogIsUsedUpOnlyWhereThePlanSaysSo(t *testing.T) {
	tk := &tank{}
	_, l := fill(t, tk, plan.Step{For: plan.Duration(time.Millisecond), Disk: &plan.Disk{Log: true}})
	if got := strings.Join(tk.done, " "); got != "fill exhaust look free writes" {
		t.Errorf("it did %s", got)
	}
	if seen := l.await(t, PhaseSeen, contract.PayDB); !strings.Contains(seen.Msg, "PANIC") || seen.Attrs["log"] != "used up" {
		t.Errorf("the log says %q, %v", seen.Msg, seen.Attrs)
	}
	_, l = fill(t, &tank{}, plan.Step{For: plan.Duration(time.Millisecond)})
	if seen := l.await(t, PhaseSeen, contract.PayDB); len(seen.Attrs) > 0 {
		t.Errorf("of a server that has room for its log it says %v", seen.Attrs)
	}
}

func TestADiskIsKeptFullAsLongAsItsWindowLasts(t *testing.T) {
	tk := &tank{more: make(chan struct{})}
	f := &diskFull{v: tk}
	if err := f.inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-tk.more
	if err := f.heal(t.Context()); err != nil || f.healed() != "to the end 0 bytes are free" {
		t.Errorf("%q, %v", f.healed(), err)
	}
	kept := tk.kept
	if time.Sleep(2 * fillEvery); tk.kept != kept { // it would go on at once
		t.Error("it is filled up still")
	}
}

func TestADiskThatCouldNotBeKeptFullSaysSo(t *testing.T) {
	tk := &tank{breaks: errors.New("no such folder"), more: make(chan struct{})}
	f := &diskFull{v: tk}
	if err := f.inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.filled.Wait()
	if err := f.heal(t.Context()); !errors.Is(err, errFaded) || !strings.Contains(err.Error(), "no such folder") {
		t.Errorf("it says %v", err)
	}
}

func TestADiskThatDidNotStayFullIsFreedAndSaysSo(t *testing.T) {
	tk := &tank{leaks: true}
	_, l := fill(t, tk, plan.Step{For: plan.Duration(time.Millisecond)})
	l.await(t, PhaseHealed, contract.PayDB)
	failed := l.await(t, PhaseFailed, contract.PayDB)
	if got := l.phases(contract.PayDB); got != "inject seen heal failed healed" || !strings.Contains(failed.Msg, "16 MB are free") {
		t.Errorf("the log says %q, %q", got, failed.Msg)
	}
	if got := strings.Join(tk.done, " "); got != "fill look free writes" {
		t.Errorf("it did %s", got)
	}
}

func TestADiskThatIsFullForNobodyIsNoWindowAndIsFreedAllTheSame(t *testing.T) {
	tk := &tank{writes: true}
	e, l := fill(t, tk, plan.Step{For: plan.Duration(time.Millisecond)})
	if got := strings.Join(tk.done, " "); got != "fill free writes" {
		t.Errorf("it did %s", got)
	}
	if got := l.phases(contract.PayDB); got != "inject failed heal healed" || e.Status().Windows != 0 || e.Status().Failed != 1 {
		t.Errorf("the log says %q, the engine counts %+v", got, e.Status())
	}
}
