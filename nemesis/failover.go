package nemesis

// Failover: lockdb is lost for good, and its standby is promoted in its place while clients go on asking. Where commits wait
// for the standby nothing that was answered is lost; where they do not, the standby lacks what was answered last, and may grant
// tokens a second time.

import (
	"context"
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis/plan"
)

// Standbys is what a Stack can do besides, where lockdb has a standby.
type Standbys interface {
	// LockStandby is the standby there is now.
	LockStandby() (LockStandby, error)
}

// LockStandby is lockdb's standby.
type LockStandby interface {
	// Starve has nothing more reach the standby, and returns when it was seen to lack what its primary has written.
	Starve(ctx context.Context) error
	// Feed takes Starve back, and returns when the standby follows.
	Feed(ctx context.Context) error
	// Lose cuts the lock server off from the primary, has the store's witness read the log to its end, and kills the primary.
	// It returns when nothing of it is left in /proc. It may be asked again.
	Lose(ctx context.Context) error
	// Promote makes the standby the primary and tells the latest token that its sequence holds for granted. Once that is done
	// it may be asked again.
	Promote(ctx context.Context) (position int64, err error)
	// Admit has the witness begin anew with what the promoted server holds, leads the lock server to it, and returns when it
	// answers over the lock server's link that it is no standby.
	Admit(ctx context.Context) error
	// Renew gives the promoted server a standby of its own, and returns when that follows.
	Renew(ctx context.Context) error
}

// Limits of a failover: a lag, a drained log, a promotion, and a copy of a whole server.
const (
	takeOverLimit = 30 * time.Second
	renewLimit    = 60 * time.Second
)

// failover is one failover. Its heal makes the next standby.
type failover struct {
	standby  LockStandby
	lag      time.Duration
	answered func() int64 // the highest token that was answered so far

	begun    bool // the primary is lost, or may be
	lost     bool
	promoted bool
	admitted bool
	highest  int64 // that was answered when the primary was lost
	position int64 // of the promoted server's sequence
}

func (f *failover) limits() (inject, heal time.Duration) { return f.lag + takeOverLimit, renewLimit }

func (f *failover) inject(ctx context.Context) error {
	if f.lag > 0 {
		if err := f.standby.Starve(ctx); err != nil {
			return err
		}
		wait(ctx, f.lag)
	}
	f.begun = true
	return f.takeOver(ctx)
}

// takeOver puts the standby in the primary's place, from wherever an earlier attempt has come to.
func (f *failover) takeOver(ctx context.Context) (err error) {
	if !f.lost {
		if err := f.standby.Lose(ctx); err != nil {
			return err
		}
		f.lost, f.highest = true, f.answered() // nobody can be granted anything before it is over
	}
	if !f.promoted {
		if f.position, err = f.standby.Promote(ctx); err != nil {
			return err
		}
		f.promoted = true
	}
	if !f.admitted {
		if err := f.standby.Admit(ctx); err != nil {
			return err
		}
		f.admitted = true
	}
	return nil
}

// heal lets the clients in, however far the failover has come, and makes a standby for the next one.
func (f *failover) heal(ctx context.Context) error {
	if !f.begun {
		return f.standby.Feed(ctx)
	}
	if err := f.takeOver(ctx); err != nil {
		return err
	}
	return f.standby.Renew(ctx)
}

// seen tells where the promoted server's sequence stands. How much of what was answered the server lacks, that does not show: a
// sequence is written down 32 values ahead.
func (f *failover) seen() string {
	stands := "no lower: none of these tokens is granted again"
	if n := f.highest - f.position; n > 0 {
		stands = fmt.Sprintf("%d below that: so many may be granted again", n)
	}
	return fmt.Sprintf("the old lockdb is gone, and its standby serves in its place: tokens up to %d had been answered, and its sequence stands at %d, %s",
		f.highest, f.position, stands)
}

func (f *failover) healed() string { return "lockdb has a standby that follows" }

// failover carries out a step on lockdb and its standby.
func (e *Engine) failover(ctx context.Context, s plan.Step) error {
	name := contract.Process(s.Target)
	stack, ok := e.stack.(Standbys)
	if !ok {
		return fmt.Errorf("%s: lockdb of this stack has no standby", s.Fault)
	}
	letGo, err := e.takeAll(ctx, plan.HeldByFailover())
	if err != nil {
		e.missed(s, trigger{}, name, err.Error())
		return nil
	}
	defer letGo()
	standby, err := stack.LockStandby()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Fault, err)
	}
	return e.hold(ctx, s, name, trigger{}, &failover{standby: standby, lag: time.Duration(s.Delay), answered: e.heard.highest}, nil)
}
