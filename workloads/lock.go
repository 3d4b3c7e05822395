package workloads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Lock is one process of the lock workload: it takes keys and gives them back, with several sessions at once, in all the
// ways in which a client may. Nothing is guarded by the keys: only the lock itself is put to work. It comes late on
// purpose now and then, as a client does that was stopped, and asks what became of its grant by using it.
//
// Lock is what the process is told, too: one JSON object, see ParseLock.
type Lock struct {
	Role   Role   `json:"role"`
	Owner  string `json:"owner"`  // its owner id
	Server string `json:"server"` // the lock server's address, "127.0.0.1:8080"
	Seed   uint64 `json:"seed,string"`
	// Keys are the keys that everybody is at; for a key that lapsed there is always somebody else.
	Keys []string `json:"keys"`
	// Quiet, where given, is a key that is taken only to let its lease run out: hardly anybody else asks for it, so whoever
	// comes a moment late finds the grant as it was left.
	Quiet string `json:"quiet,omitempty"`
	// Sessions is how many sessions a Worker has at once.
	Sessions int `json:"sessions,omitempty"`
	// Rate is how many turns per second it takes, all sessions together; 0 is as many as it can. An Operator's turn is a
	// revoke.
	Rate float64 `json:"rate,omitempty"`
	// TTLMillis is the shortest lease of a grant and of a session, in milliseconds; some are three times as long.
	TTLMillis int64 `json:"ttlMillis"`
	// HoldMillis is for how long a grant is held at most, unless it is to run out, in milliseconds.
	HoldMillis int64 `json:"holdMillis,omitempty"`
	// Lapses is the share of turns, 0 to 1, in which a Worker lets its lease run out, or its session with it.
	Lapses float64 `json:"lapses,omitempty"`
}

// Role says what a process of the lock workload does.
type Role string

// The roles.
const (
	// Worker takes turns until it is told to end; then it gives back what it holds and closes its sessions.
	Worker Role = "worker"
	// Operator looks who holds a key, and revokes the grant.
	Operator Role = "operator"
	// Sweeper asks for every key once, until it is granted it, and gives it back. A key that nobody holds any more must be
	// to be had within its TTL + 2 s; it goes on asking for a little longer, so that it shows where one is not.
	Sweeper Role = "sweeper"
)

// Times of the lock workload.
const (
	lockCall   = time.Second     // of one call, beside the time that it waits for a key: what takes longer is never heard of
	lockFinish = 3 * time.Second // for what is left to do when a process is told to end
	lockRetry  = 40 * time.Millisecond
	lockWait   = 300 * time.Millisecond // of an acquire that waits
	sweepLast  = 3500 * time.Millisecond
	sweepEvery = 50 * time.Millisecond
)

// LongLease is how many times the shortest the longest lease is that a Worker asks for.
const LongLease = 3

// ParseLock reads what a process of the lock workload is told. It refuses what no process can do.
func ParseLock(text []byte) (*Lock, error) {
	var l Lock
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("read what a lock client is told: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("read what a lock client is told: something follows the JSON object")
	}
	switch {
	case l.Role != Worker && l.Role != Operator && l.Role != Sweeper:
		return nil, fmt.Errorf("a lock client has a role: %s, %s or %s, not %q", Worker, Operator, Sweeper, l.Role)
	case l.Owner == "" || l.Server == "" || len(l.Keys) == 0 || l.TTLMillis <= 0:
		return nil, errors.New("a lock client needs an owner, a server, keys and a TTL")
	case l.Role == Worker && l.Sessions < 1:
		return nil, fmt.Errorf("a lock client has %d sessions; 1 or more", l.Sessions)
	case l.Role == Operator && l.Rate <= 0:
		return nil, fmt.Errorf("an operator revokes %v times per second; it must be more than 0", l.Rate)
	case l.HoldMillis < 0 || l.Rate < 0 || l.Lapses < 0 || l.Lapses > 1:
		return nil, errors.New("a lock client's rate and hold are 0 or more, and its share of lapses is 0 to 1")
	}
	return &l, nil
}

// Run does what l's role is until ctx ends, a Sweeper until it is done. What its requests were answered is for the
// witnesses to see; it ends in order whatever they were.
func (l *Lock) Run(ctx context.Context) {
	// Calls go on for a while after ctx has ended: what is held is given back.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lockFinish, cancel) })
	defer stop()
	c := &lockClient{Lock: l, ctx: calls, http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2*l.Sessions + len(l.all())}}}
	defer c.http.CloseIdleConnections()
	var work sync.WaitGroup
	switch l.Role {
	case Worker:
		for i := range l.Sessions {
			work.Go(func() { newWorker(c, i).run(ctx) })
		}
	case Operator:
		work.Go(func() { (&operator{c, l.rng(0)}).run(ctx) })
	case Sweeper:
		for i, key := range l.all() {
			work.Go(func() { newWorker(c, i).sweep(ctx, key) })
		}
	}
	work.Wait()
}

// rng is the stream of random numbers of the i-th worker: one seed decides what each of them does.
func (l *Lock) rng(i int) *rand.Rand {
	var name uint64 = 0xcbf29ce484222325 // FNV-1a of the owner: each process has streams of its own
	for _, b := range []byte(l.Owner) {
		name = (name ^ uint64(b)) * 0x100000001b3
	}
	return rand.New(rand.NewPCG(l.Seed, name+uint64(i)))
}

// all are all keys.
func (l *Lock) all() []string {
	if l.Quiet == "" {
		return l.Keys
	}
	return append(slices.Clone(l.Keys), l.Quiet)
}

func (l *Lock) ttl() time.Duration { return time.Duration(l.TTLMillis) * time.Millisecond }

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
