package pgstore

import (
	"context"
	"sync"
)

// turns lets one acquire per key and process go to the database at a time. Those of one key wait for one another there
// anyhow; waiting here costs no connection. It is no part of the exclusion, which is the database's.
type turns struct {
	mu   sync.Mutex
	keys map[string]*turn
}

type turn struct {
	free  chan struct{} // holds one token while nobody has the turn
	users int           // who has it or waits for it, guarded by turns.mu
}

func newTurns() *turns { return &turns{keys: map[string]*turn{}} }

// take waits for the key's turn; done gives it on.
func (t *turns) take(ctx context.Context, key string) (done func(), err error) {
	t.mu.Lock()
	k := t.keys[key]
	if k == nil {
		k = &turn{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		t.keys[key] = k
	}
	k.users++
	t.mu.Unlock()
	select {
	case <-k.free:
		return func() { k.free <- struct{}{}; t.leave(key, k) }, nil
	case <-ctx.Done():
		t.leave(key, k)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(key string, k *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(t.keys, key)
	}
}
