package locktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fenceproof/system/lock"
)

const (
	crowd      = 16
	crowdPairs = 1600
	// longestPause of a client that was refused, before its next try.
	longestPause = 4 * time.Millisecond
)

// section is what the lock protects: one holder at a time, and no older one after a younger one.
type section struct {
	w *world

	mu     sync.Mutex
	inside bool
	tokens []int64
}

func (c *section) enter(token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.tokens); c.inside || n > 0 && c.tokens[n-1] >= token {
		c.w.Errorf("token %d comes in; inside is %t, tokens so far %v", token, c.inside, c.tokens[max(0, n-3):])
	}
	c.inside, c.tokens = true, append(c.tokens, token)
}

func (c *section) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside = false
}

func (c *section) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tokens) >= crowdPairs
}

// Rules 1, 2, 3 and 5 under contention, each client at a server of its own: what keeps them apart is the backend. Tokens
// rise in the order of the backend's own log, which has what was returned and nothing else. Every eighth holder vanishes
// with its session instead of releasing.
func aCrowdOnOneKey(w *world) {
	inside, key := &section{w: w}, w.key("hot")
	var all sync.WaitGroup
	for i := range crowd {
		c := client{w, w.another(), fmt.Sprint("client-", i), key}
		all.Go(func() {
			if err := c.run(inside, rand.New(rand.NewPCG(1, uint64(i)))); err != nil {
				w.Errorf("client %d: %v", i, err)
			}
		})
	}
	all.Wait()
	logged := w.backend.Grants(w.T, key)
	if !rising(logged) {
		w.Errorf("by the backend's log tokens went backwards: %v", logged)
	}
	if !slices.Equal(logged, inside.tokens) {
		w.Errorf("the backend's log has %d grants and %d were returned:\n%v\n%v", len(logged), len(inside.tokens), logged, inside.tokens)
	}
}

// client wants the key again and again.
type client struct {
	w          *world
	store      lock.Store
	owner, key string
}

func (c client) run(inside *section, dice *rand.Rand) error {
	ctx := c.w.Context()
	x, err := c.store.OpenSession(ctx, c.owner, long)
	for err == nil && !inside.full() {
		var a lock.Acquired
		a, err = c.store.TryAcquire(ctx, c.key, c.owner, x.ID, long)
		var contended *lock.ContendedError
		if errors.As(err, &contended) {
			err = nil
			time.Sleep(time.Duration(dice.Int64N(int64(longestPause))))
			continue
		}
		if err != nil {
			return err
		}
		inside.enter(a.FencingToken)
		if dice.IntN(4) == 0 {
			if _, err := c.store.Renew(ctx, c.key, a.FencingToken, 0); err != nil {
				return fmt.Errorf("renew token %d: %w", a.FencingToken, err)
			}
		}
		inside.leave()
		if dice.IntN(8) > 0 {
			err = c.store.Release(ctx, c.key, a.FencingToken)
			continue
		}
		if err = c.store.CloseSession(ctx, x.ID); err == nil {
			x, err = c.store.OpenSession(ctx, c.owner, long)
		}
	}
	return err
}
