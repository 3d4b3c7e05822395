// Package turns lets callers go one at a time per key.
package turns

import (
	"context"
	"sync"
)

// Turns hands out the turn of each key to one caller at a time. Keys that nobody asks for take no memory.
type Turns struct {
	mu   sync.Mutex
	keys map[string]*turn
}

type turn struct {
	free  chan struct{} // holds one token while nobody has the turn
	users int           // who has it or waits for it, guarded by Turns.mu
}

// New makes Turns in which every key is free.
func New() *Turns { return &Turns{keys: map[string]*turn{}} }

// Take waits for the key's turn; done gives it on and is called once. The error is that of ctx.
func (t *Turns) Take(ctx context.Context, key string) (done func(), err error) {
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

func (t *Turns) leave(key string, k *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(t.keys, key)
	}
}
