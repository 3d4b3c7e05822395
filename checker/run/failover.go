package run

import (
	"context"
	"fmt"

	"fenceproof/deploy/local"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"

	"github.com/jackc/pgx/v5"
)

// standbyOf is the standby of lockdb that p's failovers need.
func standbyOf(p plan.Plan) local.Standby {
	switch p.Standby() {
	case plan.Failover:
		return local.SynchronousStandby
	case plan.FailoverAsync:
		return local.AsynchronousStandby
	}
	return local.NoStandby
}

// LockStandby is the standby of lockdb.
func (t target) LockStandby() (nemesis.LockStandby, error) {
	if _, err := t.Stack.Process(local.LockDBStandby); err != nil {
		return nil, fmt.Errorf("find the standby of lockdb: %w", err)
	}
	return &lockStandby{t: t}, nil
}

// lockStandby promotes a standby of lockdb. The witness reads each server's log by a slot of that server: the next epoch's is
// made when the standby is promoted, before the lock server is led to it. No commit falls between the two.
type lockStandby struct {
	t        target
	promoted bool
}

// Starve returns, where commits wait for the standby, when one was seen to wait in vain.
func (s *lockStandby) Starve(ctx context.Context) error {
	if err := s.t.StarveStandby(ctx); err != nil {
		return err
	}
	return s.t.AwaitWaitingCommit(ctx)
}

func (s *lockStandby) Feed(ctx context.Context) error { return s.t.FeedStandby(ctx) }

// Lose ends the epoch: what the lock server had asked for is committed and recorded, or will never be committed. The witness may
// record commits that waited for the standby in vain: they were answered to nobody, and end with the primary.
func (s *lockStandby) Lose(ctx context.Context) error {
	p, err := s.t.Stack.Process(local.LockDB)
	if err != nil {
		return err
	}
	if err := s.t.CutOffLockDB(ctx); err != nil {
		return err
	}
	if err := unlessLost(s.t.evidence.endEpoch(ctx)); err != nil {
		return err
	}
	return p.Kill(ctx)
}

func (s *lockStandby) Promote(ctx context.Context) (position int64, err error) {
	if !s.promoted {
		if err := s.t.PromoteStandby(ctx); err != nil {
			return 0, err
		}
		s.promoted = true
	}
	return s.t.latestToken(ctx)
}

// latestToken is the latest token that lockdb has granted, as far as it knows.
func (t target) latestToken(ctx context.Context) (token int64, err error) {
	url, err := t.SuperURL(local.LockDB)
	if err != nil {
		return 0, err
	}
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("connect to lockdb: %w", err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	if err := c.QueryRow(ctx, selectToken).Scan(&token); err != nil {
		return 0, fmt.Errorf("ask lockdb for its latest token: %w", err)
	}
	return token, nil
}

// Admit begins the next epoch, before anybody can be granted anything.
func (s *lockStandby) Admit(ctx context.Context) error {
	if err := s.t.evidence.beginEpoch(ctx, s.t.Stack); err != nil {
		return err
	}
	return s.t.ReconnectLockDB(ctx)
}

func (s *lockStandby) Renew(ctx context.Context) error { return s.t.OpenStandby(ctx) }
