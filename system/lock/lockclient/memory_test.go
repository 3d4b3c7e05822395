package lockclient

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fenceproof/system/lock"

	"github.com/google/uuid"
)

// memory is a lock.Store that follows the clock of a synctest bubble, which no database does. The stores that are
// shipped have tests of their own.
type memory struct {
	mu       sync.Mutex
	token    int64
	sessions map[string]*lock.Session
	grants   map[string]*lock.Grant
	watchers map[chan struct{}]string
}

func newMemory() *memory {
	return &memory{sessions: map[string]*lock.Session{}, grants: map[string]*lock.Grant{}, watchers: map[chan struct{}]string{}}
}

func (m *memory) OpenSession(_ context.Context, ownerID string, ttl time.Duration) (lock.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := lock.Session{ID: uuid.NewString(), OwnerID: ownerID, TTL: ttl, ExpiresAt: time.Now().Add(ttl)}
	m.sessions[x.ID] = &x
	return x, nil
}

func (m *memory) Heartbeat(_ context.Context, id string) (lock.Beat, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(id); err != nil {
		return lock.Beat{}, err
	}
	x := m.sessions[id]
	x.ExpiresAt = time.Now().Add(x.TTL)
	return lock.Beat{ExpiresAt: x.ExpiresAt, Now: time.Now()}, nil
}

func (m *memory) check(id string) error {
	switch x := m.sessions[id]; {
	case x == nil:
		return lock.ErrSessionUnknown
	case !x.ExpiresAt.After(time.Now()):
		return lock.ErrSessionExpired
	}
	return nil
}

func (m *memory) CloseSession(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[id] == nil {
		return lock.ErrSessionUnknown
	}
	m.drop(id)
	return nil
}

func (m *memory) drop(id string) {
	delete(m.sessions, id)
	for k, g := range m.grants {
		if g.SessionID == id {
			m.free(k)
		}
	}
}

func (m *memory) free(key string) {
	delete(m.grants, key)
	for c, k := range m.watchers {
		if k == key {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

func (m *memory) TryAcquire(_ context.Context, key, ownerID, session string, ttl time.Duration) (lock.Acquired, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(session); err != nil {
		return lock.Acquired{}, err
	}
	if g := m.live(key); g != nil && g.SessionID != session {
		return lock.Acquired{}, &lock.ContendedError{Holder: g.OwnerID, ExpiresAt: g.ExpiresAt}
	}
	m.token++
	g := lock.Grant{Key: key, OwnerID: ownerID, SessionID: session, FencingToken: m.token, TTL: ttl,
		AcquiredAt: time.Now(), ExpiresAt: time.Now().Add(ttl)}
	m.grants[key] = &g
	return lock.Acquired{Grant: g}, nil
}

func (m *memory) live(key string) *lock.Grant {
	if g := m.grants[key]; g != nil && g.ExpiresAt.After(time.Now()) {
		return g
	}
	return nil
}

func (m *memory) Renew(_ context.Context, key string, token int64, ttl time.Duration) (lock.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.live(key)
	if g == nil || g.FencingToken != token {
		return lock.Grant{}, m.lost(key)
	}
	if ttl != 0 && ttl != g.TTL {
		return lock.Grant{}, lock.ErrTTLMismatch
	}
	g.ExpiresAt = time.Now().Add(g.TTL)
	return *g, nil
}

func (m *memory) lost(key string) error {
	if g := m.grants[key]; g != nil {
		return &lock.LostError{StoredToken: g.FencingToken}
	}
	return &lock.LostError{}
}

func (m *memory) Release(_ context.Context, key string, token int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.grants[key]; g == nil || g.FencingToken != token {
		return m.lost(key)
	}
	m.free(key)
	return nil
}

func (m *memory) Inspect(_ context.Context, key string) (lock.Inspection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.live(key); g != nil {
		return lock.Inspection{Held: true, Grant: *g}, nil
	}
	return lock.Inspection{}, nil
}

func (m *memory) Revoke(context.Context, string, string, string, int64) (lock.Revocation, error) {
	return lock.Revocation{}, fmt.Errorf("revoke: %w", lock.ErrUnavailable) // the SDK never asks for it
}

func (m *memory) SessionLive(_ context.Context, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.check(id) == nil, nil
}

func (m *memory) Watch(key string) (<-chan struct{}, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan struct{}, 1)
	m.watchers[c] = key
	return c, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, c)
	}
}

func (m *memory) Reap(context.Context) (r lock.Reaped, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, x := range m.sessions {
		if m.check(id) != nil {
			r.Sessions = append(r.Sessions, *x)
			m.drop(id)
		}
	}
	for k, g := range m.grants {
		if m.live(k) == nil {
			r.Grants = append(r.Grants, *g)
			m.free(k)
		}
	}
	return r, nil
}

func (m *memory) Held(context.Context) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.grants), nil
}

func (m *memory) Ping(context.Context) error { return nil }

func (m *memory) Close() {}

// carries tells whether the key's live grant has token.
func (m *memory) carries(key string, token int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.live(key)
	return g != nil && g.FencingToken == token && m.check(g.SessionID) == nil
}

func (m *memory) held(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live(key) != nil
}

// heldBy tells whether the key's live grant is one of a live session.
func (m *memory) heldBy(key, session string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.live(key)
	return g != nil && g.SessionID == session && m.check(session) == nil
}
