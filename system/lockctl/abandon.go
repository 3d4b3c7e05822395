package lockctl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/lockclient"
	"fenceproof/system/payment/machine"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/wire"

	"github.com/spf13/cobra"
)

// ownerID is who holds the grants that lockctl takes.
const ownerID = "lockctl"

func (c *command) abandon() *cobra.Command {
	var wait time.Duration
	var d *deed
	x := &cobra.Command{
		Use: "abandon PAYOUT", Short: "Give a payout up that nobody began, or of which nobody knows the end",
		Long: `abandon takes the lock of the payout's account, resolves the payout to ABANDONED under that grant, and gives the lock
back. It does so from PENDING and from RAIL_AMBIGUOUS only. ABANDONED is final: money that the rail may have moved for an
ambiguous payout is no longer looked for.`,
		Example: `  lockctl abandon 0d5f9c1e-6c55-4a8e-9a3e-0c1b8d9d7f10 --operator olga --reason "beneficiary closed the account"`,
		Args:    takes("PAYOUT"),
		RunE: func(x *cobra.Command, args []string) error {
			if wait < 0 || wait > lock.MaxWait {
				return usage("--wait is %s and must be from 0s to %s", wait, lock.MaxWait)
			}
			return c.doAbandon(x.Context(), args[0], wait, d)
		},
	}
	d = c.deed(x)
	x.Flags().DurationVar(&wait, "wait", lock.MaxWait, "how long to wait for the account's lock")
	c.overrideServer(x)
	c.override(x, "payments", "LOCK_CTL_PAYMENTRESOURCEURL", "payment-resource's URL")
	return x
}

// payout is what P4 answers, as far as it is shown.
type payout struct {
	paymentclient.Payout
	Resolution *struct {
		Outcome  string `json:"outcome"`
		Operator string `json:"operator"`
		Reason   string `json:"reason"`
		Token    int64  `json:"token"`
	} `json:"resolution"`
}

// abandoned is what abandon has done.
type abandoned struct {
	PayoutID     string        `json:"payoutId"`
	AccountID    string        `json:"accountId"`
	From         machine.State `json:"from"`
	State        machine.State `json:"state"`
	FencingToken int64         `json:"fencingToken"`
}

func (c *command) doAbandon(ctx context.Context, id string, wait time.Duration, d *deed) error {
	if err := c.check(d); err != nil {
		return err
	}
	if !wire.IsID(id) {
		return usage("%q is no payout id: that is a UUID in lower-case canonical form", id)
	}
	p, err := c.abandonable(ctx, id)
	if err != nil {
		return err
	}
	if err := c.ask(ctx, "abandon payout %s of %d %s (minor units) on account %s, which is %s?", id, p.AmountMinor, p.Currency, p.AccountID, p.State); err != nil {
		return err
	}
	a := abandoned{PayoutID: id, AccountID: p.AccountID, From: p.State}
	if err := c.underGrant(ctx, p, wait, d, &a); err != nil {
		return err
	}
	return c.report(a, func(t *table) {
		t.row("PAYOUT", a.PayoutID)
		t.row("STATE", fmt.Sprintf("%s, was %s", a.State, a.From))
		t.row("UNDER", fmt.Sprintf("token %d of %s", a.FencingToken, paymentclient.LockKey(a.AccountID)))
	})
}

// abandonable reads the payout and refuses one that cannot be given up. Only P8, under the grant, decides.
func (c *command) abandonable(ctx context.Context, id string) (p payout, err error) {
	if err := c.get(ctx, c.config.PaymentResourceURL, "/v1/payouts/"+id, &p); err != nil {
		return p, fmt.Errorf("look at payout %s: %w", id, err)
	}
	switch {
	case p.State == machine.Pending || p.State == machine.RailAmbiguous:
		return p, nil
	case p.State == machine.Abandoned && p.Resolution != nil:
		return p, refuse("payout %s is ABANDONED already, by %s under token %d: %s", id, p.Resolution.Operator, p.Resolution.Token, p.Resolution.Reason)
	}
	return p, refuse("payout %s is %s: only one that is PENDING or RAIL_AMBIGUOUS can be abandoned. Nothing was changed", id, p.State)
}

// underGrant takes the account's lock, resolves the payout and gives the lock back on every path.
func (c *command) underGrant(ctx context.Context, p payout, wait time.Duration, d *deed, a *abandoned) error {
	locks, err := lockclient.New(lockclient.Options{BaseURL: c.config.ServerURL, OwnerID: ownerID, SessionTTL: c.config.SessionTTL,
		Margin: c.config.SafetyMargin, LongestStep: c.config.StepTimeout, Log: slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return usage("%w", err)
	}
	defer locks.Farewell() // with the session its grant ends
	key := paymentclient.LockKey(p.AccountID)
	lease, err := locks.Acquire(ctx, key, c.config.DefaultTTL, wait)
	var contended *lock.ContendedError
	if errors.As(err, &contended) && contended.Holder != "" {
		return refuse("%s holds %s until %s, and has held on for %s: wait, or see whether it is stuck (lockctl inspect %s). Nothing was changed",
			contended.Holder, key, clock(contended.ExpiresAt), wait, quoted(key))
	}
	if err != nil {
		return refuse("the lock was not given, and the payout was not touched: %w", err)
	}
	a.FencingToken = lease.Token()
	return c.resolve(ctx, lease, p, d, a)
}

// tries bounds how often P8 is sent, and pause is between two. The same request under the same token has one effect and one
// answer (replay).
const (
	tries = 3
	pause = 250 * time.Millisecond
)

// resolve is P8, sent again while its answer does not come and the lease covers it.
func (c *command) resolve(ctx context.Context, lease *lockclient.Lease, p payout, d *deed, a *abandoned) (err error) {
	client := paymentclient.New(c.config.PaymentResourceURL, 1, c.config.StepTimeout)
	defer client.Close()
	call := paymentclient.Protected("resolve", p.PayoutID, ownerID, lease.Token(), map[string]any{
		"resolution": "ABANDONED", "operator": d.operator, "reason": d.reason})
	sent := false
	for n := 0; n < tries && ctx.Err() == nil; n++ {
		if lost := lease.CheckStillHeld(c.config.StepTimeout); lost != nil {
			err = errors.Join(err, lost)
			break
		}
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.StepTimeout)
		err = client.Do(once, call, a)
		cancel()
		if err == nil {
			return nil
		}
		// One that had been carried out would have been answered with its own answer. One that is still on its way may find
		// another state than this one did; only a fence that is above the token stops it for good.
		if answered(err) && (!sent || wire.CodeOf(err) == wire.FencedOut) {
			return refuse("payout %s was not abandoned: %w", p.PayoutID, err)
		}
		if answered(err) {
			break
		}
		sent = sent || !neverSent(err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	if !sent {
		return refuse("payment-resource was not asked, and the payout was not touched: %w", errors.Join(err, ctx.Err()))
	}
	return unknown(err, "it is not known whether payout %s was abandoned under token %d: the request may have been carried out, or may yet be. Look: the same command again says what it is, and abandons it if it is not.",
		p.PayoutID, lease.Token())
}
