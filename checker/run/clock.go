package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/deploy/local"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"
)

// Clock finds the wall clock of a process.
func (t target) Clock(ctx context.Context, name contract.Process) (nemesis.Clock, error) {
	c, err := t.Stack.Clock(ctx, string(name))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// needsOperator tells whether a step of p may need somebody who takes a key from its holder.
func needsOperator(s plan.Step) bool { return s.Fault.OnKey() || s.Fault == plan.Clock }

// ClockHealed does what the runbook says when lockdb's clock was ahead and is right again: a grant that lasts longer than
// its own TTL from now was given by the wrong clock, and nobody else gets its key before that time has come. It is revoked.
// No other clock decides how long a grant lasts. That the lock server does not do it is the system's failure, a RunbookError.
func (t target) ClockHealed(ctx context.Context, name contract.Process) (string, error) {
	if name != contract.LockDB {
		return "", nil
	}
	if t.operator == nil {
		return "", errors.New("this run has no operator to revoke what outlives the wrong clock")
	}
	m := mending{
		ahead: t.BegunLater, revoke: t.Revoke,
		grants: func(ctx context.Context) ([]listedGrant, error) {
			return listGrants(ctx, func(ctx context.Context, path string, to any) error {
				return t.AskAdmin(ctx, local.LockServer, path, to)
			})
		},
	}
	revoked, err := m.run(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d grants that would have lasted too long were revoked", revoked), nil
}

// Times of the revokes after lockdb's clock was ahead.
const (
	mendEvery = 100 * time.Millisecond
	mendWait  = 2 * time.Second // for the answers of lockdb at one look, and for those of the lock server
	calm      = 3               // looks, one after the other, at which nothing was found: then nothing will be
)

// mending frees the keys that a wrong clock would keep from everybody.
type mending struct {
	ahead  func(context.Context) (int, error) // transactions that began by the wrong clock and may yet write by it
	grants func(context.Context) ([]listedGrant, error)
	revoke func(ctx context.Context, key string, token int64) error

	done map[int64]bool // tokens that the lock server has said to be revoked, or held by nobody
}

// sight is what one look has found.
type sight struct {
	lasting  int // grants that last too long, revoked or not
	again    int // of these, those that an earlier look had done with
	revoked  int // likewise, those that were revoked now
	underWay int // transactions that may yet grant something of the kind
}

// run looks until nothing was found several times in a row, or ctx ends, and tells how many grants it has revoked. The error is
// a RunbookError where that is because of what the lock server did, or did not do.
func (m mending) run(ctx context.Context) (revoked int, err error) {
	m.done = map[int64]bool{}
	var failed error // of the last look that ctx did not break off
	for quiet := 0; quiet < calm; {
		saw, err := m.look(ctx)
		revoked += saw.revoked
		switch quiet++; {
		case err == nil && saw.again > 0:
			quiet = 0
			err = nemesis.RunbookError{Err: fmt.Errorf("at the last look %d grants lasted too long of which the lock server had said that they were over", saw.again)}
		case err == nil && saw.lasting > 0:
			quiet = 0
			err = fmt.Errorf("at the last look %d grants lasted too long, and there was no time for another", saw.lasting)
		case err == nil && saw.underWay > 0:
			quiet = 0
			err = fmt.Errorf("at the last look %d transactions that had begun by the wrong clock were under way", saw.underWay)
		case err != nil:
			quiet = 0
		}
		if ctx.Err() == nil || failed == nil {
			failed = err
		}
		select {
		case <-time.After(mendEvery):
		case <-ctx.Done():
			return revoked, fmt.Errorf("revoke the grants that the wrong clock has made too long (%d were): %w", revoked, cmp.Or(failed, context.Cause(ctx)))
		}
	}
	return revoked, nil
}

// look revokes what is granted for too long. What is under way is asked for first: when it has gone before the grants are
// listed, it is among them.
func (m mending) look(ctx context.Context) (saw sight, err error) {
	asking, cancel := context.WithTimeout(ctx, mendWait)
	defer cancel()
	if saw.underWay, err = m.ahead(asking); err != nil {
		return saw, err
	}
	ctx, cancel = context.WithTimeout(ctx, mendWait)
	defer cancel()
	all, err := m.grants(ctx)
	if err != nil {
		return saw, nemesis.RunbookError{Err: err}
	}
	now := time.Now() // after the list: whoever is in it was granted his key before
	for _, g := range all {
		if !g.outlives(now) {
			continue
		}
		saw.lasting++
		if m.done[g.FencingToken] {
			saw.again++
		}
		switch err := m.revoke(ctx, g.Key, g.FencingToken); {
		case err == nil:
			saw.revoked++
		case !errors.Is(err, nemesis.ErrNotHeld):
			return saw, nemesis.RunbookError{Err: err}
		}
		m.done[g.FencingToken] = true
	}
	return saw, nil
}

// listedGrant is a grant as lock-server lists it.
type listedGrant struct {
	Key          string    `json:"key"`
	FencingToken int64     `json:"fencingToken"`
	TTLMillis    int64     `json:"ttlMillis"`
	ExpiresAt    time.Time `json:"expiresAt"`
}

// outlives tells whether g lasts longer than it could if a right clock had granted or renewed it by now.
func (g listedGrant) outlives(now time.Time) bool {
	return g.ExpiresAt.After(now.Add(time.Duration(g.TTLMillis) * time.Millisecond))
}

// listGrants asks for all that is granted, page by page.
func listGrants(ctx context.Context, get func(ctx context.Context, path string, to any) error) (all []listedGrant, err error) {
	for after := ""; ; {
		var page struct {
			Locks     []listedGrant `json:"locks"`
			NextAfter string        `json:"nextAfter"`
		}
		of := url.Values{}
		if after != "" {
			of.Set("after", after)
		}
		if err := get(ctx, "/locks?"+of.Encode(), &page); err != nil {
			return nil, fmt.Errorf("list what is granted: %w", err)
		}
		all = append(all, page.Locks...)
		if page.NextAfter == after && after != "" {
			return nil, fmt.Errorf("list what is granted: the page after %q is followed by itself", after)
		}
		if after = page.NextAfter; after == "" {
			return all, nil
		}
	}
}
