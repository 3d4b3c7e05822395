package nemesis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// vault is a stack with a backup of what keeps its locks. It does nothing but write down what it is asked for.
type vault struct {
	victims
	knows  int64 // the latest token when the backup was made
	latest int64 // and when it was put back
	next   int64 // where the guard says that it has moved the store; 0: far enough
	fails  map[string]error
	during func() // a backup

	losing   func() // when the store is about to be lost
	admitted func() // when the clients are let in

	mu     sync.Mutex
	asked  []string
	lost   time.Time
	waited time.Duration // from the store's loss until the guard
	until  []time.Time   // the deadlines of the loss and of the putting back
}

func (v *vault) ask(what string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, what)
	return v.fails[what]
}

func (v *vault) BackUpLocks(context.Context) (LockBackup, int64, error) {
	if v.during != nil {
		v.during()
	}
	return v, v.knows, v.ask("back up")
}

func (v *vault) Lose(ctx context.Context) error {
	v.limited(ctx)
	if v.losing != nil {
		v.losing()
	}
	v.lost = time.Now()
	return v.ask("lose")
}

func (v *vault) PutBack(ctx context.Context, guarded bool) (int64, error) {
	v.limited(ctx)
	if guarded {
		return v.latest, v.ask("put back to be guarded")
	}
	return v.latest, v.ask("put back")
}

func (v *vault) limited(ctx context.Context) {
	if until, ok := ctx.Deadline(); ok {
		v.until = append(v.until, until)
	}
}

func (v *vault) Guard(context.Context) (int64, string, error) {
	v.waited = time.Since(v.lost)
	return cmp.Or(v.next, 1<<40), "moved", v.ask("guard")
}

func (v *vault) Admit(context.Context) error {
	if v.admitted != nil {
		v.admitted()
	}
	return v.ask("admit")
}

// grant has the engine hear of grants, with tokens from 1 on, until stop is called.
func grant(e *Engine) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for token := int64(1); ; token++ {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				e.Observe(granted("executor-1", "k", token, history.Answered))
			}
		}
	}()
	return func() { close(done); <-ended }
}

// putBack runs one restore on v and gives the engine's error.
func putBack(t *testing.T, v *vault, l *log, f plan.Fault, drive time.Duration, grants bool) (*Engine, error) {
	t.Helper()
	e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 1, Drive: plan.Duration(drive), Steps: []plan.Step{{
		Fault: f, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(50 * time.Millisecond)}}}, v, l)
	e.grantWait = 100 * time.Millisecond
	if grants {
		defer grant(e)()
	}
	return e, e.Run(t.Context())
}

func TestARestoreGoesByTheProcedureOrDoesNot(t *testing.T) {
	failed := errors.New("it did not work")
	for _, c := range []struct {
		name   string
		fault  plan.Fault
		latest int64
		fails  string
		asked  string
		phases string
		words  string // of the last phase but healed
		broken bool   // the engine says that something stays broken
	}{
		{"guarded", plan.Restore, 50, "", "back up, lose, put back to be guarded, guard, admit", "inject seen heal healed", "the store knows of tokens up to 50, and ", false},
		{"unguarded", plan.RestoreUnguarded, 50, "", "back up, lose, put back, admit", "inject seen heal healed", "the store knows of tokens up to 50, and ", false},
		{"the backup lacks nothing", plan.RestoreUnguarded, 1 << 40, "", "back up, lose, put back, admit", "inject failed heal healed", "nothing was lost", false},
		{"there is no backup", plan.Restore, 50, "back up", "back up", "failed", "there is no backup: it did not work", false},
		{"the store cannot be killed", plan.Restore, 50, "lose", "back up, lose, admit", "inject failed heal healed", "it did not work", false},
		{"the backup does not start", plan.Restore, 50, "put back to be guarded", "back up, lose, put back to be guarded", "inject failed heal failed", "nobody is let in", true},
		{"the backup does not start, and nobody was to guard it", plan.RestoreUnguarded, 50, "put back", "back up, lose, put back, admit", "inject failed heal healed", "it did not work", false},
		{"the guard refuses", plan.Restore, 50, "guard", "back up, lose, put back to be guarded, guard", "inject seen heal failed", "it did not work", true},
		{"nobody is let in", plan.RestoreUnguarded, 50, "admit", "back up, lose, put back, admit", "inject seen heal failed", "it did not work", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, l := &vault{latest: c.latest, fails: map[string]error{c.fails: failed}}, newLog()
			e, err := putBack(t, v, l, c.fault, long, true)
			if (err != nil) != c.broken {
				t.Errorf("the engine says %v", err)
			}
			if got := strings.Join(v.asked, ", "); got != c.asked {
				t.Errorf("asked for: %s", got)
			}
			if got := l.phases(contract.Process(plan.LockStore)); got != c.phases {
				t.Errorf("the log says %q", got)
			}
			if !slices.ContainsFunc(l.events, func(e history.Event) bool { return strings.Contains(e.Msg, c.words) }) {
				t.Errorf("nothing in the log says %q: %v", c.words, l.events)
			}
			if s := e.Status(); len(s.Active) != 0 || s.Windows+s.Failed != 1 {
				t.Errorf("the engine counts %+v", s)
			}
		})
	}
}

// A sequence may skip 32 tokens when its server starts again: what was granted soon after the backup would not be granted
// again.
func TestAStoreIsNotLostBeforeItHasGrantedWhatTheBackupLacks(t *testing.T) {
	v, l := &vault{knows: 100, latest: 132, fails: map[string]error{}}, newLog()
	if _, err := putBack(t, v, l, plan.RestoreUnguarded, long, true); err != nil {
		t.Fatal(err)
	}
	if seen := l.await(t, PhaseSeen, contract.Process(plan.LockStore)); !strings.HasPrefix(seen.Msg, "the store knows of tokens up to 132, and 1") {
		t.Errorf("the log says %q", seen.Msg)
	}
}

func TestTheSecondOfTwoRestoresWaitsUntilTheFirstIsOver(t *testing.T) {
	v, l := &vault{latest: 1, fails: map[string]error{}}, newLog()
	step := plan.Step{Fault: plan.RestoreUnguarded, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)}
	e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{step, step}}, v, l)
	e.patience = long
	stop := grant(e)
	err := e.Run(t.Context())
	stop()
	if got, once := strings.Join(v.asked, ", "), "back up, lose, put back, admit"; err != nil || got != once+", "+once {
		t.Errorf("%v; asked for: %s", err, got)
	}
}

func TestAStoreOfWhichTooLittleWouldBeLostIsLeftAlone(t *testing.T) {
	v, l := &vault{}, newLog()
	if _, err := putBack(t, v, l, plan.Restore, 200*time.Millisecond, false); err != nil {
		t.Fatal(err)
	}
	failed := l.await(t, PhaseFailed, contract.Process(plan.LockStore))
	if got := strings.Join(v.asked, ", "); got != "back up" || !strings.Contains(failed.Msg, "0 tokens after the backup") {
		t.Errorf("asked for: %s; the log says %q", got, failed.Msg)
	}
}

// That nobody wants a key any more leaves nothing broken. The log says that the healing was not seen.
func TestARestoreThatNobodyUsesIsNotSeenToBeHealed(t *testing.T) {
	v, l := &vault{latest: 50, fails: map[string]error{}}, newLog()
	e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{{
		Fault: plan.RestoreUnguarded, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Second)}}}, v, l)
	e.grantWait = time.Millisecond
	stop := grant(e)
	done := make(chan error, 1)
	go func() { done <- e.Run(t.Context()) }()
	l.await(t, PhaseSeen, contract.Process(plan.LockStore))
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if failed := l.await(t, PhaseFailed, contract.Process(plan.LockStore)); !strings.Contains(failed.Msg, "nobody was granted anything") {
		t.Errorf("the log says %q", failed.Msg)
	}
}

// Whoever was granted something after the backup believes until his lease is over that he holds it, and so he does not lose
// the time to find out because the run ends.
func TestTheGuardWaitsForTheLongestLeaseAlthoughTheDriveHasEnded(t *testing.T) {
	const lease = 300 * time.Millisecond
	v, l := &vault{latest: 50, fails: map[string]error{}}, newLog()
	e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{{
		Fault: plan.Restore, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(lease)}}}, v, l)
	defer grant(e)()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	l.await(t, PhaseSeen, contract.Process(plan.LockStore))
	end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(v.asked, "guard") || v.waited < lease {
		t.Errorf("asked for %v; the guard came %s after the loss", v.asked, v.waited)
	}
}

// Whoever is stopped or killed while his data is copied has no backup.
func TestNobodyIsHitWhileABackupIsTakenOfHim(t *testing.T) {
	v, l := &vault{latest: 1, fails: map[string]error{}}, newLog()
	e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{{
		Fault: plan.RestoreUnguarded, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)}}}, v, l)
	v.during = func() {
		if e.take(contract.LockDB) {
			t.Error("another step may take lockdb while it is backed up")
		}
		if !e.take(contract.LockServer) {
			t.Error("nobody may take the lock server, of which there is no backup")
		}
		e.release(contract.LockServer)
	}
	stop := grant(e)
	err := e.Run(t.Context())
	stop()
	if err != nil || !slices.Contains(v.asked, "back up") || !e.take(contract.LockDB) {
		t.Errorf("%v; asked for %v", err, v.asked)
	}
}

func TestAStackWithoutABackupCannotBePutBack(t *testing.T) {
	_, end, _ := story(t, victims{}, newLog(), long, plan.Step{Fault: plan.Restore, Target: plan.LockStore})
	if err := end(); err == nil || !strings.Contains(err.Error(), "cannot be put back") {
		t.Errorf("got %v", err)
	}
}

// Whoever is let in after the drive has ended may ask for nothing. That is told from a store that grants nothing.
func TestThatNobodyAsksAfterTheDriveIsNotTakenForAStoreThatGrantsNothing(t *testing.T) {
	for _, over := range []bool{false, true} {
		v, l := &vault{latest: 50, fails: map[string]error{}}, newLog()
		e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{{
			Fault: plan.Restore, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)}}}, v, l)
		e.grantWait = 20 * time.Millisecond
		ctx, end := context.WithCancel(t.Context())
		v.losing = grant(e)
		v.admitted = func() {
			if over {
				end()
			}
		}
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
		end()
		if failed := l.await(t, PhaseFailed, contract.Process(plan.LockStore)); (failed.Attrs[AttrUnasked] != "") != over {
			t.Errorf("the drive has ended: %t; the log says %+v", over, failed)
		}
	}
}

// Whoever holds a key in the backup has it for another lease where nobody ends his session: that nobody else is granted it
// until then is no flaw of an unguarded restore.
func TestAnUnguardedRestoreWaitsForALeaseBeforeItSaysThatNobodyIsGrantedAnything(t *testing.T) {
	for f, want := range map[plan.Fault]string{plan.RestoreUnguarded: "inject seen heal healed", plan.Restore: "inject seen heal failed"} {
		v, l := &vault{latest: 50, fails: map[string]error{}}, newLog()
		e := NewEngine(plan.Plan{Backend: plan.BackendPG, Locks: &plan.Locks{}, Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{{
			Fault: f, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)}}}, v, l)
		e.grantWait = 50 * time.Millisecond // and the longest lease is 3 s
		v.losing = grant(e)
		v.admitted = func() {
			time.AfterFunc(10*e.grantWait, func() { e.Observe(granted("executor-1", "k", 1<<41, history.Answered)) })
		}
		if err := e.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if got := l.phases(contract.Process(plan.LockStore)); got != want {
			t.Errorf("%s: the log says %q", f, got)
		}
	}
}

// Nobody breaks the links to a store that is being put back, nor the database that the procedure reads.
func TestARestoreHasTheLinksOfItsStoreAndTheProcedureThePaymentsDatabase(t *testing.T) {
	for f, paydb := range map[plan.Fault]bool{plan.Restore: true, plan.RestoreUnguarded: false} {
		v, l := &vault{latest: 50, fails: map[string]error{}}, newLog()
		e := NewEngine(plan.Plan{Backend: plan.BackendPG, Together: 1, Drive: plan.Duration(long), Steps: []plan.Step{{
			Fault: f, Target: plan.LockStore, Delay: plan.Duration(time.Millisecond), For: plan.Duration(time.Millisecond)}}}, v, l)
		v.admitted = func() {
			for name, held := range map[contract.Process]bool{"lockdb": true, "lock-server": true, "lock-server→lockdb": true, "paydb": paydb} {
				if e.take(name) == held {
					t.Errorf("%s: it has %s in its hands: %t", f, name, !held)
				}
				if !held {
					e.release(name)
				}
			}
		}
		stop := grant(e)
		if err := e.Run(t.Context()); err != nil {
			t.Error(err)
		}
		stop()
	}
}

// A store that takes long to be lost takes none of the time that its backup has to start.
func TestTheLossOfAStoreAndItsPuttingBackHaveEachTheirOwnTime(t *testing.T) {
	v := &vault{latest: 1}
	f := &restore{backup: v, highest: new(atomic.Int64)}
	f.highest.Store(100)
	inject, _ := f.limits()
	ctx, cancel := context.WithTimeout(t.Context(), inject)
	defer cancel()
	begun := time.Now()
	if err := f.inject(ctx); err != nil {
		t.Fatal(err)
	}
	if len(v.until) != 2 || v.until[0].Before(begun.Add(loseLimit)) || v.until[1].Sub(v.until[0]) < putBackLimit-loseLimit {
		t.Errorf("begun at %s they have until %v", begun, v.until)
	}
}
