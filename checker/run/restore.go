package run

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/deploy/local"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/select_token.sql
	selectToken string
	//go:embed sql/select_clients.sql
	selectClients string
)

// BackUpLocks copies what keeps the locks, lockdb's data or a snapshot of etcd.
func (t target) BackUpLocks(ctx context.Context) (nemesis.LockBackup, int64, error) {
	copied, err := t.Stack.BackUpLocks(ctx)
	if err != nil {
		return nil, 0, err
	}
	b := &lockBackup{t: t, backup: copied}
	knows, err := b.latest(ctx) // whatever is granted meanwhile is not in it
	return b, knows, err
}

// latest is the latest token: of the backup where it is a snapshot, and else of the store as it is.
func (b *lockBackup) latest(ctx context.Context) (token int64, err error) {
	if b.onEtcd() {
		return b.t.SnapshotRevision(ctx, b.backup.Path())
	}
	c, err := b.super(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if err := c.QueryRow(ctx, selectToken).Scan(&token); err != nil {
		return 0, fmt.Errorf("ask lockdb for its latest token: %w", err)
	}
	return token, nil
}

// lockBackup puts a backup back. Restore-guard is the operator's program, run as an operator runs it.
type lockBackup struct {
	t      target
	backup *local.Backup
}

func (b *lockBackup) onEtcd() bool { return len(b.t.EtcdURLs()) > 0 }

// stores are the processes that keep the locks.
func (b *lockBackup) stores() []string {
	if !b.onEtcd() {
		return []string{local.LockDB}
	}
	return b.t.EtcdNames()
}

// Lose ends the epoch: the lock server, the store's only client, is gone, and what it had committed is recorded.
func (b *lockBackup) Lose(ctx context.Context) error {
	if err := b.kill(ctx, local.LockServer); err != nil {
		return err
	}
	if !b.onEtcd() {
		if err := b.awaitAlone(ctx); err != nil {
			return err
		}
	}
	if err := unlessLost(b.t.evidence.endEpoch(ctx)); err != nil {
		return err
	}
	for _, name := range b.stores() {
		if err := b.kill(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (b *lockBackup) kill(ctx context.Context, name string) error {
	p, err := b.t.Stack.Process(name)
	if err != nil {
		return err
	}
	return p.Kill(ctx)
}

// goneEvery is how often lockdb is asked whether its clients are gone.
const goneEvery = 10 * time.Millisecond

// awaitAlone waits until lockdb has noticed that the lock server is gone: a statement that it was at work on may commit
// until then.
func (b *lockBackup) awaitAlone(ctx context.Context) error {
	c, err := b.super(ctx)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for {
		var n int
		if err := c.QueryRow(ctx, selectClients, lockOwner).Scan(&n); err != nil {
			return fmt.Errorf("ask lockdb for its clients: %w", err)
		}
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d clients of lockdb do not go: %w", n, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// lockOwner is the user of lockdb that the lock server is.
const lockOwner = "lockapp"

func (b *lockBackup) super(ctx context.Context) (*pgx.Conn, error) {
	url, err := b.t.SuperURL(local.LockDB)
	if err != nil {
		return nil, err
	}
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to lockdb: %w", err)
	}
	return c, nil
}

// PutBack starts the store from the backup. On etcd the procedure restores the snapshot by itself, so that there the
// snapshot's own revision is the latest token that is known.
func (b *lockBackup) PutBack(ctx context.Context, guarded bool) (latest int64, err error) {
	if !b.onEtcd() {
		if err := b.backup.PutBack(ctx, nil); err != nil {
			return 0, err
		}
		return b.latest(ctx)
	}
	if latest, err = b.latest(ctx); err != nil || guarded {
		return latest, err
	}
	return latest, b.backup.PutBack(ctx, nil)
}

// guardedTo is what restore-guard prints.
type guardedTo struct {
	StoodAt       int64 `json:"stoodAt"`
	NextToken     int64 `json:"nextToken"`
	EndedSessions int64 `json:"endedSessions"`
}

// Guard runs the operator's program: on PostgreSQL once, on etcd for every member while it is down, and once when all are up.
func (b *lockBackup) Guard(ctx context.Context) (string, error) {
	var moved guardedTo
	if b.onEtcd() {
		err := b.backup.PutBack(ctx, func(ctx context.Context, snapshot, dir string, flags []string) (err error) {
			moved, err = b.guard(ctx, append([]string{"--snapshot", snapshot, "--data-dir", dir}, flags...)...)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	done, err := b.insist(ctx)
	if err != nil {
		return "", err
	}
	if !b.onEtcd() {
		moved = done
	}
	return fmt.Sprintf("restore-guard moved the store from token %d: the next one is %d or above; it ended %d sessions", moved.StoodAt, moved.NextToken, done.EndedSessions), nil
}

// The store that was just started may have an election yet, and refuse an answer meanwhile. Carrying the guard out twice is
// safe, as the runbook says.
const (
	guardAttempts = 5
	guardEvery    = 500 * time.Millisecond
)

// insist runs the guard again where it was refused.
func (b *lockBackup) insist(ctx context.Context) (done guardedTo, err error) {
	for attempt := 1; ; attempt++ {
		if done, err = b.guard(ctx); err == nil || attempt == guardAttempts {
			return done, err
		}
		select {
		case <-ctx.Done():
			return done, err
		case <-time.After(guardEvery):
		}
	}
}

func (b *lockBackup) guard(ctx context.Context, args ...string) (g guardedTo, err error) {
	all := append([]string{"restore-guard", "--json", "--yes", "--operator", string(contract.Operator), "--reason", "the store was lost on purpose"}, args...)
	text, err := b.t.Operate(ctx, all...)
	if err != nil {
		return g, err
	}
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return g, fmt.Errorf("restore-guard says nothing of what it did: %q", text)
	}
	if err := json.NewDecoder(strings.NewReader(text[at:])).Decode(&g); err != nil {
		return g, fmt.Errorf("read what restore-guard did: %w", err)
	}
	return g, nil
}

// Admit begins the next epoch, before anybody can be granted anything.
func (b *lockBackup) Admit(ctx context.Context) error {
	for _, name := range b.stores() {
		if err := b.start(ctx, name); err != nil {
			return err
		}
	}
	if b.onEtcd() {
		if err := b.t.AwaitEtcd(ctx); err != nil {
			return err
		}
	}
	return errors.Join(b.t.evidence.beginEpoch(ctx, b.t.Stack), b.start(ctx, local.LockServer))
}

func (b *lockBackup) start(ctx context.Context, name string) error {
	p, err := b.t.Stack.Process(name)
	if err != nil || p.Running() {
		return err
	}
	return p.Restart(ctx)
}

// guards tells whether a plan goes by the operator's procedure for a restore, which reads paydb even where nobody is paid.
func guards(p plan.Plan) bool {
	for _, s := range p.Steps {
		if s.Fault == plan.Restore {
			return true
		}
	}
	return false
}
