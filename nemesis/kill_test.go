package nemesis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// restarted tells whether another process than the one of pid is there.
func (v victims) restarted(name contract.Process, pid int) bool {
	return v[name].Pid() != pid && v[name].Running()
}

func TestAKilledProcessIsSeenGoneAndStartedAgain(t *testing.T) {
	v, l := startVictims(t, "paydb"), newLog()
	pid := v["paydb"].Pid()
	v["paydb"].fails = 3 // its port is still taken
	e, wait, _ := story(t, v, l, long, plan.Step{Fault: plan.Kill, Target: "paydb", For: plan.Duration(time.Millisecond)})
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := l.phases("paydb"); got != "inject seen heal healed" || !v.restarted("paydb", pid) {
		t.Errorf("the log says %q; started again: %v", got, v.restarted("paydb", pid))
	}
	if s := e.Status(); s.Windows != 1 || s.Failed != 0 {
		t.Errorf("the engine counts %+v", s)
	}
}

func TestAServiceIsKilledAtWhatHappensToSomebodyElse(t *testing.T) {
	forwarded := &history.Event{W: history.Wiretap, Type: contract.Invoke, Proc: "executor-2", Op: contract.OpPost, Stage: history.Forwarded, Payout: "p", Token: 41}
	acquired := granted("executor-2", "k", 7, history.Delivered)
	for name, c := range map[string]struct {
		on     plan.Event
		notYet []*history.Event
		at     *history.Event
	}{
		"a post on its way": {plan.PostForwarded, []*history.Event{acquired, delivered("executor-2", contract.OpPost, "p", 41)}, forwarded},
		"a grant":           {plan.AcquireOK, []*history.Event{forwarded, granted("reconciler", "k", 6, history.Delivered), granted("executor-2", "k", 7, history.Answered)}, acquired},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := startVictims(t, "paydb", "executor-2"), newLog()
			pid := v["paydb"].Pid()
			e, wait, _ := story(t, v, l, long, plan.Step{Fault: plan.Kill, Target: "paydb", On: c.on, For: plan.Duration(time.Millisecond)})
			for _, ev := range c.notYet {
				e.Observe(ev)
			}
			if s := e.Status(); s.Windows+len(s.Active) != 0 {
				t.Errorf("it began too early: %+v", s)
			}
			listening(t, e, l, append(c.notYet, c.at)...)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			seen := l.await(t, PhaseSeen, "paydb")
			if seen.Payout != c.at.Payout || seen.Key != c.at.Key || !v.restarted("paydb", pid) {
				t.Errorf("it was killed for payout %q, key %q", seen.Payout, seen.Key)
			}
			if !v["executor-2"].Running() {
				t.Error("the process that triggered it is gone")
			}
		})
	}
}

func TestAProcessThatHasEndedByItselfIsNotStartedAgainByAKill(t *testing.T) {
	v, l := startVictims(t, "rail-stub"), newLog()
	if err := v["rail-stub"].Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, wait, _ := story(t, v, l, long, plan.Step{Fault: plan.Kill, Target: "rail-stub", For: plan.Duration(time.Millisecond)})
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	failed := l.await(t, PhaseFailed, "rail-stub")
	if s := e.Status(); s.Windows != 0 || s.Failed != 1 || !strings.Contains(failed.Msg, "by itself") || v["rail-stub"].Running() {
		t.Errorf("the engine counts %+v; the log says %q", s, failed.Msg)
	}
}

func TestWhenTheRunIsInterruptedWhatWasKilledIsStartedAgain(t *testing.T) {
	v, l := startVictims(t, "lockdb"), newLog()
	pid := v["lockdb"].Pid()
	_, wait, cancel := story(t, v, l, long, plan.Step{Fault: plan.Kill, Target: "lockdb", For: plan.Duration(long)})
	l.await(t, PhaseSeen, "lockdb")
	cancel()
	if err := wait(); err != nil || !v.restarted("lockdb", pid) {
		t.Errorf("%v; started again: %v", err, v.restarted("lockdb", pid))
	}
}

func TestAStepWaitsForAProcessThatAnotherStepHolds(t *testing.T) {
	v, l := startVictims(t, "paydb"), newLog()
	pause := plan.Step{Fault: plan.Pause, Target: "paydb", For: plan.Duration(200 * time.Millisecond)}
	kill := plan.Step{Fault: plan.Kill, Target: "paydb", At: plan.Duration(100 * time.Millisecond), For: plan.Duration(time.Millisecond)}
	e, wait, _ := story(t, v, l, long, pause, kill)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := l.phases("paydb"); got != "inject seen heal healed inject seen heal healed" || e.Status().Windows != 2 {
		t.Errorf("the log says %q, the engine counts %+v", got, e.Status())
	}
}

// ensemble is a stack with a leader, which is elected at the third question.
type ensemble struct {
	victims
	mu    sync.Mutex
	asked int
}

func (c *ensemble) Leader(context.Context) (contract.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked++; c.asked < 3 {
		return "", errors.New("an election goes on")
	}
	return "etcd-2", nil
}

func TestTheLeaderIsWhoeverLeadsWhenTheStepBegins(t *testing.T) {
	c, l := &ensemble{victims: startVictims(t, "etcd-1", "etcd-2", "etcd-3")}, newLog()
	pid := c.victims["etcd-2"].Pid()
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{
		{Fault: plan.Kill, Target: plan.EtcdLeader, On: plan.AcquireOK, For: plan.Duration(time.Millisecond)}}}, c, l)
	done := make(chan error, 1)
	go func() { done <- e.Run(t.Context()) }()
	listening(t, e, l, granted("executor-2", "k", 7, history.Delivered))
	if err := <-done; err != nil || l.phases("etcd-2") != "inject seen heal healed" || !c.restarted("etcd-2", pid) {
		t.Errorf("%v; the log says %q of etcd-2", err, l.phases("etcd-2"))
	}
}

func TestAStepOnTheLeaderOfAStackWithoutOneSaysThatItWasNotDone(t *testing.T) {
	v, l := startVictims(t, "lockdb"), newLog()
	e, wait, _ := story(t, v, l, long, plan.Step{Fault: plan.Kill, Target: plan.EtcdLeader, For: plan.Duration(time.Millisecond)})
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := l.await(t, PhaseFailed, "etcd-leader"); !strings.Contains(got.Msg, "nobody leads") || e.Status().Failed != 1 {
		t.Errorf("the log says %q", got.Msg)
	}
}

// dying is a process that takes its time to end once it was killed.
type dying struct {
	Process
	looks   int // so often it is still seen to run
	started bool
}

func (d *dying) Kill(context.Context) error    { return errors.New("something of it is still there") }
func (d *dying) Restart(context.Context) error { d.started = true; return nil }
func (d *dying) Running() bool                 { d.looks--; return d.looks >= 0 }

func TestAProcessThatEndsLongAfterItWasKilledIsStartedAgain(t *testing.T) {
	d := &dying{looks: 3}
	f := &kill{p: d}
	if err := f.inject(t.Context()); err == nil {
		t.Error("it is still there, and was seen to be gone")
	}
	if err := f.heal(t.Context()); err != nil || !d.started {
		t.Errorf("%v; started again: %v", err, d.started)
	}
}

func TestAProcessThatWasKilledAndDoesNotEndIsNotCalledHealed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&kill{p: &dying{looks: 1 << 30}}).heal(ctx); err == nil {
		t.Error("it is called healed")
	}
}
