package nemesis

// Restore: what keeps the locks is lost, and an older copy of it knows nothing of the tokens that were granted since. Put back
// by the operator's procedure it grants none of them again, and new holders work at once; put back as it is, it grants them
// a second time.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// LockStores is what a Stack can do besides, where what keeps the locks can be put back to an older state.
type LockStores interface {
	// BackUpLocks keeps a copy of what keeps the locks, as it is now. knows is the latest token that can be in it.
	BackUpLocks(ctx context.Context) (b LockBackup, knows int64, err error)
}

// LockBackup is a copy of what keeps the locks, which can take its place once.
type LockBackup interface {
	// Lose stops the lock server, so that nobody is granted anything any more, has the store's witness read the log to its end,
	// and kills the store.
	Lose(ctx context.Context) error
	// PutBack puts the copy in the store's place and tells the latest token that it knows of. Whoever goes by the operator's
	// procedure begins it here.
	PutBack(ctx context.Context, guarded bool) (latest int64, err error)
	// Guard goes on with the operator's procedure. It tells below which token nobody is granted anything from now on, and what
	// was done in a few words. The error is a RunbookError where the operator's program ran and did not do its part.
	Guard(ctx context.Context) (next int64, done string, err error)
	// Admit has the witness begin anew with what the store holds, and then starts the lock server. It starts the store as
	// well, should that not run.
	Admit(ctx context.Context) error
}

// RunbookError says that the system did not carry out a step of the operator's runbook: his program ran after a restore and did
// not do what it is for or did not say so, or the lock server did not take away what a wrong clock had granted. Any other error
// of such a step is the harness's own: the program could not be started, or the backup could not be put back.
type RunbookError struct{ Err error }

func (e RunbookError) Error() string { return e.Err.Error() }

// Unwrap is what the system did, or said.
func (e RunbookError) Unwrap() error { return e.Err }

func bySystem(err error) bool {
	var of RunbookError
	return errors.As(err, &of)
}

// Limits of a restore.
const (
	backUpLimit  = 20 * time.Second // a copy of the data
	loseLimit    = 30 * time.Second // the lock server's stop, the rest of the log, the store's end
	putBackLimit = 40 * time.Second // the copy in its place, and the store's start
	admitLimit   = 90 * time.Second // the guard, which asks each of up to five members, and the lock server's start
	grantLimit   = 2 * time.Second  // a grant after it all; beyond the longest lease where nobody has ended the sessions
)

// worthLosing is how many tokens a backup must lack: a sequence may skip 32 when its server starts again, and what is granted
// then would be new.
const worthLosing = 64

// restore is one restore of what keeps the locks. Its inject loses the store and puts the backup in its place.
type restore struct {
	backup  LockBackup
	guarded bool
	wait    time.Duration // from the stop of the lock server until the guard: nobody believes any more that he holds a key
	highest *atomic.Int64 // the highest token answered since the backup
	granted func() *listener
	ended   func() bool   // the drive has, and with it the load: whoever is let in may ask for nothing
	within  time.Duration // of the clients' admission somebody is granted something

	lost    bool // or may be
	begun   bool // to be put back
	back    bool
	stopped time.Time
	latest  int64         // that the backup knows of
	done    string        // by the guard
	after   time.Duration // their admission somebody was granted something
	unasked bool          // nobody was, and the drive has ended
	keptOut bool          // all clients are, because of the guard
}

// AttrUnasked stands in the log of a restore behind which nobody was granted anything, where the drive had ended by then.
const AttrUnasked = "unasked"

// AttrKeptOut stands in the log of a restore after which nobody was let in, and of a clock whose grants keep everybody from their
// keys, because the system did not carry out what the operator's runbook asks for.
const AttrKeptOut = "keptOut"

func (f *restore) attrs() map[string]string {
	switch {
	case f.keptOut:
		return map[string]string{AttrKeptOut: "true"}
	case f.unasked:
		return map[string]string{AttrUnasked: "true"}
	}
	return nil
}

func (f *restore) limits() (inject, heal time.Duration) {
	return loseLimit + putBackLimit, f.wait + admitLimit
}

// inject has had its effect where the store knows of fewer tokens than were answered to clients.
func (f *restore) inject(ctx context.Context) (err error) {
	f.lost = true
	if err := within(ctx, loseLimit, f.backup.Lose); err != nil {
		return err
	}
	f.stopped, f.begun = time.Now(), true // the lock server is, that is, and all since
	err = within(ctx, putBackLimit, func(ctx context.Context) (err error) {
		f.latest, err = f.backup.PutBack(ctx, f.guarded)
		return err
	})
	if err != nil {
		return err
	}
	f.back = true
	if f.latest >= f.highest.Load() {
		return fmt.Errorf("the backup knows of token %d, and the highest that was answered since is %d: nothing was lost", f.latest, f.highest.Load())
	}
	return nil
}

func (f *restore) seen() string {
	return fmt.Sprintf("the store knows of tokens up to %d, and %d had been answered", f.latest, f.highest.Load())
}

// heal lets the clients in, unless they would meet a store that was put back and not moved: what they were granted there
// would be laid to the system. That somebody is granted something then shows that the lock works again.
func (f *restore) heal(ctx context.Context) error {
	if !f.lost {
		return nil
	}
	if f.guarded && f.begun {
		if err := f.guard(ctx); err != nil {
			f.keptOut = bySystem(err)
			return fmt.Errorf("nobody is let in, as the store may grant tokens a second time: %w", err)
		}
	}
	l := f.granted()
	defer l.close()
	if err := f.backup.Admit(ctx); err != nil {
		return err
	}
	admitted := time.Now()
	over := time.NewTimer(f.within)
	defer over.Stop()
	select {
	case <-l.heard:
		f.after = time.Since(admitted)
		return nil
	case <-over.C:
	case <-ctx.Done():
	}
	if f.unasked = f.ended(); f.unasked {
		return fmt.Errorf("%w: the drive has ended, and nobody was granted anything within %s", errUnproven, f.within)
	}
	return fmt.Errorf("%w: nobody was granted anything within %s", errUnproven, f.within)
}

// guard goes by the procedure, once nobody believes any more that he holds a key.
func (f *restore) guard(ctx context.Context) (err error) {
	if !f.back {
		return errors.New("the backup was not put in its place, or not wholly")
	}
	wait(ctx, time.Until(f.stopped.Add(f.wait)))
	var next int64
	if next, f.done, err = f.backup.Guard(ctx); err != nil {
		return err
	}
	if highest := f.highest.Load(); next <= highest {
		return RunbookError{fmt.Errorf("the guard says that the next token is %d, and %d had been answered: %s", next, highest, f.done)}
	}
	return nil
}

func (f *restore) healed() string {
	granted := fmt.Sprintf("clients are granted keys again, the first %s after they were let in", f.after.Round(time.Millisecond))
	if f.done == "" {
		return granted
	}
	return f.done + "; " + granted
}

// restore carries out a step on what keeps the locks.
func (e *Engine) restore(ctx context.Context, s plan.Step) error {
	name := contract.Process(s.Target)
	stack, ok := e.stack.(LockStores)
	if !ok {
		return fmt.Errorf("%s: what keeps the locks of this stack cannot be put back", s.Fault)
	}
	if !e.takeWithin(ctx, name, true) { // there is one backup at a time
		e.missed(s, trigger{}, name, e.heldBack(ctx, string(name)))
		return nil
	}
	defer e.release(name)
	due := time.Now().Add(time.Duration(s.Delay))
	backup, knows, err := e.backUp(ctx, stack)
	if err != nil {
		e.missed(s, trigger{}, name, fmt.Sprintf("there is no backup: %v", err))
		return nil
	}
	var highest atomic.Int64
	enough := make(chan struct{})
	tokens := e.heard.listen(func(ev *history.Event) bool {
		if was := highest.Load(); grants(ev) && ev.Granted > was {
			highest.Store(ev.Granted)
			if least := knows + worthLosing; was < least && ev.Granted >= least {
				close(enough)
			}
		}
		return false
	})
	defer tokens.close()
	select {
	case <-enough:
	case <-ctx.Done():
	}
	if !wait(ctx, time.Until(due)) || ctx.Err() != nil {
		e.missed(s, trigger{}, name, fmt.Sprintf("the drive has ended, %d tokens after the backup", max(0, highest.Load()-knows)))
		return nil
	}
	letGo, err := e.takeAll(ctx, e.plan.Held(s.Fault))
	if err != nil {
		e.missed(s, trigger{}, name, err.Error())
		return nil
	}
	defer letGo()
	guarded, within := s.Fault == plan.Restore, e.grantWait
	if !guarded { // whoever holds a key in the backup lawfully has it for another lease, which etcd begins anew
		within += e.plan.LongestLease()
	}
	err = e.hold(ctx, s, name, trigger{}, &restore{backup: backup, guarded: guarded, wait: time.Duration(s.For), highest: &highest,
		within: within, ended: func() bool { return ctx.Err() != nil }, granted: func() *listener { return e.heard.listen(grants) }}, nil)
	if bySystem(err) { // before anybody else has the store in his hands
		e.end()
	}
	return err
}

// backUp takes a backup. Nobody stops or kills meanwhile what it is taken of.
func (e *Engine) backUp(ctx context.Context, stack LockStores) (LockBackup, int64, error) {
	letGo, err := e.takeAll(ctx, e.plan.BackedUp())
	if err != nil {
		return nil, 0, err
	}
	defer letGo()
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), backUpLimit)
	defer cancel()
	return stack.BackUpLocks(c)
}

// grants tells whether ev answers an acquire with a grant.
func grants(ev *history.Event) bool {
	return ev.W == history.Wiretap && ev.Stage == history.Answered && ev.Op == contract.OpAcquire && ev.Type == contract.OK && ev.Granted > 0
}
