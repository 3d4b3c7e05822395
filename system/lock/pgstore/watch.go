package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// linger gathers the keys that become free within it into one announcement. NOTIFY serialises the commits of a whole
	// database cluster, so that it must not sit in the transaction of a release.
	linger = 5 * time.Millisecond
	// announceLimit bounds the keys that wait to be announced. Beyond it waiters elsewhere find out by their poll.
	announceLimit = 4096
	// silence is how long the listening connection may be quiet before it is asked whether it still lives.
	silence = 5 * time.Second
)

// watch wakes those who wait for keys: at once in this process, through NOTIFY in others. A wake-up may be lost (a
// crash, a broken connection); waiters poll as well.
type watch struct {
	pool *pgxpool.Pool
	conn *pgx.ConnConfig
	log  *slog.Logger
	self string // marks this store's announcements, which it need not hear

	mu      sync.Mutex
	waiters map[string]map[chan struct{}]struct{}
	pending map[string]struct{} // keys to announce
	due     chan struct{}       // something is pending
}

func newWatch(pool *pgxpool.Pool, conn *pgx.ConnConfig, log *slog.Logger) *watch {
	return &watch{pool: pool, conn: conn, log: log, self: uuid.NewString(), due: make(chan struct{}, 1),
		waiters: map[string]map[chan struct{}]struct{}{}, pending: map[string]struct{}{}}
}

// Watch wakes the receiver when key may have become free.
func (s *Store) Watch(key string) (<-chan struct{}, func()) { return s.watch.add(key) }

func (w *watch) add(key string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiters[key] == nil {
		w.waiters[key] = map[chan struct{}]struct{}{}
	}
	w.waiters[key][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.waiters[key], c); len(w.waiters[key]) == 0 {
			delete(w.waiters, key)
		}
	}
}

// freed wakes this process's waiters for keys and has the others told.
func (w *watch) freed(keys ...string) {
	if len(keys) == 0 {
		return
	}
	w.mu.Lock()
	for _, k := range keys {
		wake(w.waiters[k])
		if len(w.pending) < announceLimit {
			w.pending[k] = struct{}{}
		}
	}
	w.mu.Unlock()
	select {
	case w.due <- struct{}{}:
	default:
	}
}

func wake(waiters map[chan struct{}]struct{}) {
	for c := range waiters {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// announce tells other processes about freed keys until ctx ends.
func (w *watch) announce(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.due:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(linger):
		}
		c, cancel := context.WithTimeout(ctx, operationTimeout)
		if _, err := w.pool.Exec(c, announceFreeSQL, w.take()); err != nil && ctx.Err() == nil {
			w.log.Debug("freed keys were not announced; waiters of other processes poll", "error", err.Error())
		}
		cancel()
	}
}

func (w *watch) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	payloads := make([]string, 0, len(w.pending))
	for k := range w.pending {
		payloads = append(payloads, w.self+" "+k)
	}
	clear(w.pending)
	return payloads
}

// listen hears announcements on a connection of its own, and opens it again when it breaks, until ctx ends.
func (w *watch) listen(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	for ctx.Err() == nil {
		err := w.hear(ctx, pause.Reset)
		if ctx.Err() != nil {
			return
		}
		w.log.Debug("the listening connection broke and is opened again", "error", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// hear opens the connection, calls opened, and passes announcements on until the connection breaks.
func (w *watch) hear(ctx context.Context, opened func()) error {
	c, err := pgx.ConnectConfig(ctx, w.conn.Copy())
	if err != nil {
		return fmt.Errorf("open the listening connection: %w", err)
	}
	defer closeConn(c)
	if _, err := c.Exec(ctx, listenFreeSQL); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	opened()
	w.wakeAll() // whatever was announced before was not heard
	for {
		quiet, cancel := context.WithTimeout(ctx, silence)
		n, err := c.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			w.heard(n.Payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case quiet.Err() == nil:
			return fmt.Errorf("wait for announcements: %w", err)
		default:
			if err := w.alive(ctx, c); err != nil {
				return err
			}
		}
	}
}

func (w *watch) alive(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		return fmt.Errorf("ask the listening connection: %w", err)
	}
	return nil
}

func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // it is broken or we are done; either way there is nothing to learn
}

func (w *watch) heard(payload string) {
	from, key, ok := strings.Cut(payload, " ")
	if !ok || from == w.self {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wake(w.waiters[key])
}

func (w *watch) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waiters := range w.waiters {
		wake(waiters)
	}
}
