package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// Times of the revokes after lockdb's clock was ahead. What had begun before that may be committed later, so it is looked
// for until nothing was found for a while.
const (
	outlivingEvery = 100 * time.Millisecond
	outlivingCalm  = 3 // looks, one after the other, at which nothing was found
	outlivingLimit = 100
	outlivingWait  = 2 * time.Second // for the answer to one question
)

// ClockHealed does what the runbook says when lockdb's clock was ahead and is right again: a grant that lasts longer than
// now and the longest TTL was given by the wrong clock, and nobody else gets its key before that time has come. It is
// revoked. No other clock decides how long a grant lasts.
func (t target) ClockHealed(ctx context.Context, name contract.Process) (string, error) {
	if name != contract.LockDB {
		return "", nil
	}
	if t.operator == nil {
		return "", errors.New("this run has no operator to revoke what outlives the wrong clock")
	}
	revoked := 0
	for calm, looks := 0, 0; calm < outlivingCalm; looks++ {
		if looks == outlivingLimit {
			return "", fmt.Errorf("after %d looks there are still grants that the wrong clock has made too long", looks)
		}
		n, err := t.revokeOutliving(ctx)
		revoked += n
		if calm++; n > 0 || err != nil {
			calm = 0
		}
		select {
		case <-time.After(outlivingEvery):
		case <-ctx.Done():
			return "", errors.Join(fmt.Errorf("revoke the grants that the wrong clock has made too long: %w", context.Cause(ctx)), err)
		}
	}
	return fmt.Sprintf("%d grants that would have lasted too long were revoked", revoked), nil
}

// revokeOutliving revokes what is granted for longer than a lease from now.
func (t target) revokeOutliving(ctx context.Context) (revoked int, err error) {
	ctx, cancel := context.WithTimeout(ctx, outlivingWait)
	defer cancel()
	grants, err := t.grants(ctx)
	if err != nil {
		return 0, err
	}
	latest := time.Now().Add(t.lease)
	for _, g := range grants {
		if !g.ExpiresAt.After(latest) {
			continue
		}
		switch err := t.Revoke(ctx, g.Key, g.FencingToken); {
		case err == nil:
			revoked++
		case !errors.Is(err, nemesis.ErrNotHeld):
			return revoked, err
		}
	}
	return revoked, nil
}

// listedGrant is a grant as lock-server lists it.
type listedGrant struct {
	Key          string    `json:"key"`
	FencingToken int64     `json:"fencingToken"`
	ExpiresAt    time.Time `json:"expiresAt"`
}

// grants asks lock-server's private listener for all that is granted.
func (t target) grants(ctx context.Context) (all []listedGrant, err error) {
	base, err := t.AdminURL(local.LockServer)
	if err != nil {
		return nil, err
	}
	for after := ""; ; {
		var page struct {
			Locks     []listedGrant `json:"locks"`
			NextAfter string        `json:"nextAfter"`
		}
		of := url.Values{}
		if after != "" {
			of.Set("after", after)
		}
		if err := getJSON(ctx, base+"/locks?"+of.Encode(), &page); err != nil {
			return nil, fmt.Errorf("list what is granted: %w", err)
		}
		all = append(all, page.Locks...)
		if after = page.NextAfter; after == "" {
			return all, nil
		}
	}
}

func getJSON(ctx context.Context, url string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<22))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", url, resp.StatusCode, text)
	}
	return json.Unmarshal(text, to)
}
