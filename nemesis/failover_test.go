package nemesis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// twins is a stack whose lockdb has a standby that does nothing but write down what it is asked for. Where fails names a call
// the first one of it goes wrong.
type twins struct {
	victims
	position int64
	fails    string
	before   func(call string)

	mu    sync.Mutex
	asked []string
}

func (w *twins) LockStandby() (LockStandby, error) { return w, nil }

func (w *twins) Starve(context.Context) error { return w.ask("starve") }
func (w *twins) Feed(context.Context) error   { return w.ask("feed") }
func (w *twins) Lose(context.Context) error   { return w.ask("lose") }
func (w *twins) Admit(context.Context) error  { return w.ask("admit") }
func (w *twins) Renew(context.Context) error  { return w.ask("renew") }
func (w *twins) Promote(context.Context) (int64, error) {
	return w.position, w.ask("promote")
}

func (w *twins) ask(call string) error {
	if w.before != nil {
		w.before(call)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, call)
	if w.fails == call && !slices.Contains(w.asked[:len(w.asked)-1], call) {
		return errors.New("not this time")
	}
	return nil
}

// failingOver runs one failover to its end, with tokens up to 40 answered before lockdb is lost and one more afterwards.
func failingOver(t *testing.T, w *twins, l *log, s plan.Step) (*Engine, error) {
	t.Helper()
	s.Target = "lockdb"
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{s}}, w, l)
	w.before = func(call string) {
		switch call {
		case "lose":
			for _, token := range []int64{39, 40, 38} {
				ev := granted("executor-1", "k", token, history.Answered)
				e.Observe(ev)
			}
		case "renew":
			ev := granted("executor-1", "k", 41, history.Answered)
			e.Observe(ev)
		}
	}
	return e, e.Run(t.Context())
}

func TestAFailoverTellsWhereTheSequenceStandsAndNotThatNothingIsLost(t *testing.T) {
	for _, c := range []struct {
		position int64
		says     string
	}{{25, "stands at 25, 15 below that: so many may be granted again"}, {40, "stands at 40, no lower"}, {66, "stands at 66, no lower: none of these tokens is granted again"}} {
		w, l := &twins{position: c.position}, newLog()
		e, err := failingOver(t, w, l, plan.Step{Fault: plan.FailoverAsync, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(w.asked, " "); got != "starve lose promote admit renew" {
			t.Errorf("the standby was asked to %s", got)
		}
		if seen := l.await(t, PhaseSeen, "lockdb"); !strings.Contains(seen.Msg, c.says) || l.phases("lockdb") != "inject seen heal healed" {
			t.Errorf("position %d: the log says %s, and %q", c.position, l.phases("lockdb"), seen.Msg)
		}
		if s := e.Status(); s.Windows != 1 || s.Failed != 0 || len(s.Active) != 0 {
			t.Errorf("the engine counts %+v", s)
		}
	}
}

func TestAFailoverThatGoesWrongIsTakenToItsEndAndOneThatNeverBeganIsTakenBack(t *testing.T) {
	for fails, asked := range map[string]string{
		"starve":  "starve feed",
		"lose":    "starve lose lose promote admit renew",
		"promote": "starve lose promote promote admit renew",
		"admit":   "starve lose promote admit admit renew",
	} {
		w, l := &twins{fails: fails}, newLog()
		e, err := failingOver(t, w, l, plan.Step{Fault: plan.Failover, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(w.asked, " "); got != asked {
			t.Errorf("%s went wrong, and the standby was asked to %s; want %s", fails, got, asked)
		}
		if got := l.phases("lockdb"); got != "inject failed heal healed" || e.Status().Failed != 1 {
			t.Errorf("%s went wrong: the log says %s, the engine counts %+v", fails, got, e.Status())
		}
	}
}

func TestAStandbyThatIsToHaveEverythingIsNotStarved(t *testing.T) {
	w := &twins{}
	if _, err := failingOver(t, w, newLog(), plan.Step{Fault: plan.Failover, For: plan.Duration(time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.asked, " "); got != "lose promote admit renew" {
		t.Errorf("the standby was asked to %s", got)
	}
}

func TestAStackWithoutAStandbyCannotFailOver(t *testing.T) {
	_, end, _ := story(t, victims{}, newLog(), long, plan.Step{Fault: plan.Failover, Target: "lockdb", For: plan.Duration(time.Millisecond)})
	if err := end(); err == nil || !strings.Contains(err.Error(), "has no standby") {
		t.Errorf("got %v", err)
	}
}
