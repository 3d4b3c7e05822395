package nemesis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis/plan"
)

// watches is a stack of clocks that are numbers.
type watches struct {
	victims
	mu     sync.Mutex
	by     time.Duration
	moves  int
	open   int
	stuck  bool          // it does not move
	jams   bool          // it does not move back
	dies   bool          // there is no process any more once it was moved
	coarse time.Duration // how wide an answer is
	breaks int           // it cannot be moved any more after so many moves away, 0 for never
	hangs  bool          // a move does not return until its context ends
	mute   bool          // it tells nobody the time when it is right
	deaf   bool          // nor can what it has left behind be set right
	balks  bool          // the system does not do what that takes
	sticks bool          // it cannot be let go of
	forks  time.Duration // what was being forked at the last move away has that, until the next move finds it
	healed []contract.Process
}

func (w *watches) Clock(context.Context, contract.Process) (Clock, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	return w, nil
}

func (w *watches) ClockHealed(_ context.Context, p contract.Process) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.healed = append(w.healed, p)
	if w.deaf {
		return "", errors.New("it does not answer")
	}
	if w.balks {
		return "", RunbookError{errors.New("the revoke was answered 500")}
	}
	return "3 grants were revoked", nil
}

func (w *watches) Running() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.dies || w.moves == 0
}

func (w *watches) Move(ctx context.Context, by time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hangs && by != 0 && w.moves > 0 {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return context.Cause(ctx)
	}
	if w.breaks > 0 && by != 0 && w.moves >= w.breaks {
		return errors.New("a thread did not stop")
	}
	if w.dies && w.moves > 0 {
		return errors.New("it has ended")
	}
	w.moves++
	if by != 0 {
		w.forks = by
	} else if w.by == 0 { // what was being forked is there by now
		w.forks = 0
	}
	if !w.stuck && (!w.jams || by != 0) {
		w.by = by
	}
	return nil
}

func (w *watches) Read(context.Context) (least, most time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute && w.by == 0 {
		return 0, 0, errors.New("conn closed")
	}
	if w.dies && w.moves > 0 && !w.stuck {
		return w.by, w.by, nil
	}
	phase := time.Duration(time.Now().UnixNano()) % max(w.coarse, 1) // an answer in whole seconds says less than it could
	return w.by - phase, w.by - phase + w.coarse, nil
}

func (w *watches) Close(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	if w.sticks {
		return errors.New("it cannot be let go of")
	}
	return nil
}

// moved carries one step out.
func moved(t *testing.T, w *watches, target plan.Target, m plan.Movement, last time.Duration) *log {
	t.Helper()
	l := newLog()
	step := plan.Step{Fault: plan.Clock, Target: target, For: plan.Duration(last), Clock: &m}
	e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{step}}, w, l)
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.open != 0 {
		t.Errorf("%d clocks are still open", w.open)
	}
	return l
}

func TestAClockIsMovedSeenToBeAndSeenToBeRightAgain(t *testing.T) {
	hour := plan.Duration(time.Hour)
	for _, c := range []struct {
		name         string
		how          plan.Movement
		seen, healed string
		left         int
	}{
		{"ahead", plan.Movement{By: hour}, "ahead", "grants were revoked", 1},
		{"behind", plan.Movement{By: -hour}, "behind", "it was 59m59", 0},
		{"a second ahead", plan.Movement{By: plan.Duration(time.Second)}, "ahead", "grants were revoked", 1},
		{"to and fro", plan.Movement{By: hour, Strobe: plan.Duration(20 * time.Millisecond)}, "to and fro", "grants were revoked", 1},
		{"gaining", plan.Movement{Drift: plan.Duration(20 * time.Second)}, "ahead", "grants were revoked", 1},
		{"losing", plan.Movement{Drift: -plan.Duration(20 * time.Second)}, "behind", "it was ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &watches{coarse: time.Second}
			l := moved(t, w, "lockdb", c.how, 200*time.Millisecond)
			seen, healed := l.await(t, PhaseSeen, "lockdb"), l.await(t, PhaseHealed, "lockdb")
			if !strings.Contains(seen.Msg, c.seen) || !strings.Contains(healed.Msg, c.healed) || !strings.Contains(healed.Msg, "ahead") {
				t.Errorf("seen: %s; healed: %s", seen.Msg, healed.Msg)
			}
			if w.by != 0 || w.forks != 0 || len(w.healed) != c.left {
				t.Errorf("it is %s off, what was being forked %s, and %v were set right", w.by, w.forks, w.healed)
			}
		})
	}
}

func TestAClockThatDoesNotMoveIsNotSeenToAndIsPutRightAllTheSame(t *testing.T) {
	w := &watches{stuck: true}
	f := &skew{stack: w, target: "paydb", how: plan.Movement{By: plan.Duration(time.Hour)}}
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := f.inject(soon); err == nil || !strings.Contains(err.Error(), "1h0m0s ahead") {
		t.Errorf("it says %v", err)
	}
	if err := f.heal(t.Context()); err != nil || w.open != 0 {
		t.Errorf("it says %v, and %d clocks are open", err, w.open)
	}
}

// Whom nobody can ask is put right all the same, with what he has left behind, as far as he lets anybody.
func TestAClockThatIsRightAndCannotBeReadIsUnprovenAndNoFailure(t *testing.T) {
	for _, c := range []struct {
		name     string
		w        *watches
		unproven bool
		left     int
	}{
		{"nobody is answered any more", &watches{mute: true}, true, 1},
		{"nor can what it has left behind be set right", &watches{mute: true, deaf: true}, true, 1},
		{"it cannot be let go of", &watches{mute: true, sticks: true}, false, 1},
		{"it says that it is still off", &watches{jams: true}, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &skew{stack: c.w, target: "lockdb", how: plan.Movement{By: plan.Duration(time.Hour)}}
			if err := f.inject(t.Context()); err != nil {
				t.Fatal(err)
			}
			soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if err := f.heal(soon); err == nil || errors.Is(err, errUnproven) != c.unproven {
				t.Errorf("it says %v", err)
			}
			if len(c.w.healed) != c.left || c.w.open != 0 {
				t.Errorf("%v were set right, and %d clocks are open", c.w.healed, c.w.open)
			}
		})
	}
}

// What the lock server does not take away stays granted for as long as its clock was ahead. It was asked as the runbook says, so
// that is the system's failure, unless the harness leaves the clock as it is. Nobody waits for keys that he cannot get.
func TestALockServerThatRefusesTheRunbooksStepIsToldFromAHarnessThatFails(t *testing.T) {
	ahead := plan.Step{Fault: plan.Clock, Target: "lockdb", For: plan.Duration(10 * time.Millisecond), Clock: &plan.Movement{By: plan.Duration(time.Hour)}}
	later := plan.Step{Fault: plan.Kill, Target: plan.Target(contract.LockServer), At: plan.Duration(long / 2)}
	for _, c := range []struct {
		name   string
		w      *watches
		system bool
		words  string
	}{
		{"it answers the revokes 500", &watches{balks: true}, true, "what it has left behind is not set right: the revoke was answered 500"},
		{"and the clock cannot be let go of", &watches{balks: true, sticks: true}, false, "it cannot be let go of; and before that: "},
		{"nobody is there to ask it", &watches{deaf: true}, false, "it does not answer"},
	} {
		l := newLog()
		e := NewEngine(plan.Plan{Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{ahead, later}}, c.w, l)
		if !c.system {
			e.plan.Steps = e.plan.Steps[:1]
		}
		err := e.Run(t.Context())
		if err == nil || bySystem(err) != c.system || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: the engine says %v", c.name, err)
		}
		failed := l.await(t, PhaseFailed, "lockdb")
		if got := l.phases("lockdb"); got != "inject seen heal failed" || (failed.Attrs[AttrKeptOut] != "") != c.system || failed.Attrs["by"] != "1h0m0s" {
			t.Errorf("%s: the log says %q, and with %v that it %s", c.name, got, failed.Attrs, failed.Msg)
		}
		if got := l.phases(contract.LockServer); c.system && got != "failed" {
			t.Errorf("%s: the next step was tried: %q", c.name, got)
		}
	}
}

// A strobe or a drift whose mover has given up is no full window, whatever was seen in the beginning.
func TestAClockThatWasNotMovedToTheEndIsPutRightAndSaysSo(t *testing.T) {
	for name, how := range map[string]plan.Movement{
		"to and fro": {By: plan.Duration(time.Hour), Strobe: plan.Duration(20 * time.Millisecond)}, "gaining": {Drift: plan.Duration(20 * time.Second)},
	} {
		w := &watches{breaks: 20}
		l := moved(t, w, "paydb", how, 1500*time.Millisecond)
		l.await(t, PhaseHealed, "paydb")
		failed := l.await(t, PhaseFailed, "paydb")
		if got := l.phases("paydb"); got != "inject seen heal failed healed" || !strings.Contains(failed.Msg, "a thread did not stop") || w.by != 0 {
			t.Errorf("%s: the log says %q, %q, and it is %s off", name, got, failed.Msg, w.by)
		}
	}
}

func TestAMoveThatDoesNotEndDoesNotHoldUpTheHealing(t *testing.T) {
	w := &watches{hangs: true}
	f := &skew{stack: w, target: "paydb", how: plan.Movement{Drift: plan.Duration(20 * time.Second)}}
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := f.inject(soon); err == nil {
		t.Error("a clock that was moved once is seen to drift")
	}
	if err := f.heal(t.Context()); err != nil || w.by != 0 {
		t.Errorf("it says %v, and is %s off", err, w.by)
	}
}

func TestOfAProcessThatHasDiedNoClockIsPutRight(t *testing.T) {
	w := &watches{dies: true}
	l := moved(t, w, "executor-1", plan.Movement{By: -plan.Duration(time.Hour)}, 10*time.Millisecond)
	if healed := l.await(t, PhaseHealed, "executor-1"); !strings.Contains(healed.Msg, "has the true time") {
		t.Errorf("it says %s", healed.Msg)
	}
}

// A database is asked over two connections. Where one of them has the true time all the while, it is not seen at both ends.
func TestAStrobeIsSeenOnlyWhereAllOfAServerGoesToAndFro(t *testing.T) {
	hour := time.Hour
	m := plan.Movement{By: plan.Duration(hour), Strobe: plan.Duration(100 * time.Millisecond)}
	var s sightings
	for range 5 {
		if _, seen := s.take(m, time.Now(), 0, hour); seen {
			t.Fatal("one that is right and one that is an hour ahead are taken for both ends")
		}
	}
	if _, seen := s.take(m, time.Now(), hour-time.Second, hour+time.Millisecond); seen {
		t.Error("one end is taken for both")
	}
	if _, seen := s.take(m, time.Now(), -time.Second, time.Millisecond); !seen {
		t.Error("both ends are not seen")
	}
}

// That a clock was moved once is no drift, and neither is one that gains far less or more.
func TestADriftIsSeenByItsRate(t *testing.T) {
	for _, c := range []struct {
		name  string
		drift time.Duration
		moves func(after time.Duration) time.Duration
		want  bool
	}{
		{"as fast as it should", 3 * time.Second, func(d time.Duration) time.Duration { return 3 * d }, true},
		{"a little late", 3 * time.Second, func(d time.Duration) time.Duration { return 2 * d }, true},
		{"losing", -900 * time.Millisecond, func(d time.Duration) time.Duration { return -d * 9 / 10 }, true},
		{"gaining instead of losing", -900 * time.Millisecond, func(d time.Duration) time.Duration { return d * 9 / 10 }, false},
		{"moved once", 3 * time.Second, func(time.Duration) time.Duration { return time.Millisecond }, false},
		{"moved once, and far", 3 * time.Second, func(time.Duration) time.Duration { return time.Hour }, false},
		{"far too slow", 3 * time.Second, func(d time.Duration) time.Duration { return d / 10 }, false},
		{"far too fast", 100 * time.Millisecond, func(d time.Duration) time.Duration { return 3 * d }, false},
		{"not at all", 3 * time.Second, func(time.Duration) time.Duration { return 0 }, false},
	} {
		for _, coarse := range []time.Duration{time.Millisecond, time.Second} {
			var s sightings
			seen, began := false, time.Now()
			for d := 50 * time.Millisecond; d < 4*time.Second && !seen; d += 70 * time.Millisecond {
				at := c.moves(d)
				phase := (d + at) % coarse
				_, seen = s.take(plan.Movement{Drift: plan.Duration(c.drift)}, began.Add(d), at-phase, at-phase+coarse)
			}
			if seen != c.want && !(c.name == "far too fast" && coarse == time.Second) { // which an answer in whole seconds does not tell
				t.Errorf("%s, told to within %s: seen is %t", c.name, coarse, seen)
			}
		}
	}
}

// A service answers in whole seconds, so an answer may be right about two clocks that are a second apart. Several answers
// are not.
func TestSeveralCoarseAnswersTellAClockFromOneThatIsASecondAway(t *testing.T) {
	var s sightings
	second := time.Second
	if s.still(second, second, 0, second) {
		t.Error("a clock that may be right is seen to be a second ahead")
	}
	if s.still(second, second, second/2, 3*second/2) != true {
		t.Error("half a second to a second ahead is not seen to be a second ahead")
	}
	if s.still(second, second, -2*second, -second) || s.any {
		t.Error("a clock that contradicts itself is believed")
	}
	if !s.still(second, second, second/2, 5*second/4) {
		t.Error("nor is it believed afterwards")
	}
}
