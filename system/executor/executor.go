// Package executor pays payouts out: it takes the lock of an account, finishes what is in flight or claims a pending
// payout, submits it to the rail once, and posts it. It never acts without a grant, and there is no setting that lets it.
//
// The lease is liveness: it keeps executors out of each other's way. Safety is the fences' business, because a process can
// be stopped between its last check and its write, for as long as it takes.
package executor

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// Lease is a grant as its holder sees it.
type Lease interface {
	// Token is the grant's fencing token.
	Token() int64
	// CheckStillHeld is nil when more than need is left of the lease, by the holder's own careful reckoning.
	CheckStillHeld(need time.Duration) error
	// Release gives the grant back; one that is over already is no error.
	Release(ctx context.Context) error
}

// Acquire takes the lock of key without waiting, or fails.
type Acquire func(ctx context.Context, key string) (Lease, error)

// Options are what an Executor is made of.
type Options struct {
	OwnerID            string
	PaymentResourceURL string
	RailProxyURL       string
	Acquire            Acquire
	Concurrency        int           // accounts worked at once, ≥ 1
	Prepare            time.Duration // between the last lease check and a protected call
	StepTimeout        time.Duration // of a protected call, from its send
	Poll               time.Duration // pause between two looks for work
	Log                *slog.Logger
	Registerer         prometheus.Registerer
}

// Executor looks for work and does it.
type Executor struct {
	options  Options
	services services
	execute  *prometheus.HistogramVec
	log      *slog.Logger
	dice     *rand.Rand // Run's own
	desk     *desk
	wake     chan struct{} // an account was given up with work left

	mu     sync.Mutex
	failed error // of the last look for work; errNotLooked before the first
}

// New makes an executor; Run does the work.
func New(o Options) *Executor {
	h := fnv.New64a()
	_, _ = h.Write([]byte(o.OwnerID)) // a hash does not fail
	return &Executor{
		options: o,
		services: services{payments: paymentclient.New(o.PaymentResourceURL, o.Concurrency+1, o.StepTimeout),
			rail: wire.NewClient(o.RailProxyURL, o.Concurrency), timeout: o.StepTimeout},
		execute: newExecuteSeconds(o.Registerer),
		log:     o.Log.With("ownerId", o.OwnerID),
		dice:    rand.New(rand.NewPCG(h.Sum64(), 0)),
		desk:    newDesk(),
		wake:    make(chan struct{}, 1),
		failed:  errNotLooked,
	}
}

// errNotLooked is what a process says of itself that has only begun.
var errNotLooked = errors.New("nobody has looked for work yet")

// Ready tells whether the last look for work was answered.
func (e *Executor) Ready(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// Run works until ctx ends. It then begins nothing more, lets the protected calls in flight finish, and gives the grants
// back.
func (e *Executor) Run(ctx context.Context) error {
	defer e.services.close()
	var workers sync.WaitGroup
	defer workers.Wait()
	slots := make(chan struct{}, e.options.Concurrency)
	cursor := ""
	for ctx.Err() == nil {
		var accounts []string
		accounts, cursor = e.findWork(ctx, cursor)
		for _, account := range accounts {
			if !e.desk.take(account, time.Now()) {
				continue
			}
			pause := e.jitter()
			select {
			case slots <- struct{}{}:
				workers.Go(func() {
					defer func() { <-slots }()
					e.serve(ctx, account, pause)
				})
			case <-ctx.Done():
				e.desk.put(account, time.Time{})
			}
		}
		e.rest(ctx)
	}
	return ctx.Err()
}

// jitter is a pause around the configured one, so that executors do not march in step.
func (e *Executor) jitter() time.Duration {
	return e.options.Poll/2 + time.Duration(e.dice.Int64N(int64(e.options.Poll)))
}

func (e *Executor) rest(ctx context.Context) {
	t := time.NewTimer(e.jitter())
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.wake:
	case <-ctx.Done():
	}
}

// pageSize is how many payouts a look for work reads. A long backlog is read a page a look, so that one account's
// thousands do not hide the others for ever.
const pageSize = 100

// findWork lists accounts with work, in an order of its own, and the cursor for the next look.
func (e *Executor) findWork(ctx context.Context, cursor string) (accounts []string, nextCursor string) {
	found, err := e.services.list(ctx, open, "", cursor, pageSize)
	e.mu.Lock()
	e.failed = err
	e.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			e.log.Warn("payment-resource did not say what there is to do", "event", "poll_failed", "error", err)
		}
		return nil, ""
	}
	seen := map[string]bool{}
	for _, p := range found.Items {
		if !seen[p.AccountID] {
			seen[p.AccountID] = true
			accounts = append(accounts, p.AccountID)
		}
	}
	e.dice.Shuffle(len(accounts), func(i, j int) { accounts[i], accounts[j] = accounts[j], accounts[i] })
	return accounts, found.NextCursor
}

// maxStreak is how many payouts of one account are worked in a row, each under a grant of its own, before the account
// is left to the next look for work.
const maxStreak = 8

// serve works on account, a grant a payout, until nothing is left or something stands in the way; then the account is
// left alone for pause.
func (e *Executor) serve(ctx context.Context, account string, pause time.Duration) {
	for range maxStreak {
		if !e.underGrant(ctx, account).ended() || ctx.Err() != nil {
			e.desk.put(account, time.Now().Add(pause))
			return
		}
	}
	e.desk.put(account, time.Time{})
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// underGrant takes the account's lock, does one pass and gives the lock back on every path.
func (e *Executor) underGrant(ctx context.Context, account string) result {
	lease, err := e.acquire(ctx, account)
	if err != nil {
		return resultContended
	}
	defer e.release(ctx, lease, account)
	start := time.Now()
	end := pass{services: e.services, owner: e.options.OwnerID, prepare: e.options.Prepare, lease: lease, log: e.log}.run(ctx, account)
	if end != resultIdle {
		e.execute.WithLabelValues(string(end)).Observe(time.Since(start).Seconds())
	}
	return end
}

// acquire asks for the account's lock once. Without a grant nothing is done, whatever the reason.
func (e *Executor) acquire(ctx context.Context, account string) (Lease, error) {
	c, cancel := context.WithTimeout(ctx, e.options.StepTimeout)
	defer cancel()
	lease, err := e.options.Acquire(c, paymentclient.LockKey(account))
	var contended *lock.ContendedError
	if err != nil && wire.CodeOf(err) != wire.LockContended && !errors.As(err, &contended) && ctx.Err() == nil {
		e.log.Warn("no lock was given", "event", "lock_unavailable", "accountId", account, "error", err)
	}
	return lease, err
}

func (e *Executor) release(ctx context.Context, lease Lease, account string) {
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.options.StepTimeout)
	defer cancel()
	if err := lease.Release(c); err != nil {
		e.log.Warn("the lock could not be given back and will expire", "event", "release_failed", "accountId", account, "fencingToken", lease.Token(), "error", err)
	}
}
