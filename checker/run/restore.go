package run

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/deploy/local"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"
)

//go:embed sql/select_token.sql
var selectToken string

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
	return b.t.latestToken(ctx)
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

// Lose ends the epoch: the lock server, the store's only client, is gone, and what it had committed is recorded. lockdb ends
// what it was at work on for it, and may commit that until then: it may not have noticed, as a link that is cut or held between
// the two hides it.
func (b *lockBackup) Lose(ctx context.Context) error {
	if err := b.kill(ctx, local.LockServer); err != nil {
		return err
	}
	if !b.onEtcd() {
		if err := b.t.EndLockClients(ctx); err != nil {
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

// guardedTo is what restore-guard prints. A step tells what it has done, and leaves out the rest.
type guardedTo struct {
	Backend       string `json:"backend"`
	StoodAt       *int64 `json:"stoodAt"`
	NextToken     *int64 `json:"nextToken"`
	EndedSessions *int64 `json:"endedSessions"`
}

// Guard runs the operator's program: on PostgreSQL once, on etcd for every member while it is down, and once when all are up.
func (b *lockBackup) Guard(ctx context.Context) (next int64, done string, err error) {
	var moved moves
	if b.onEtcd() {
		err := b.backup.PutBack(ctx, func(ctx context.Context, snapshot, dir string, flags []string) error {
			g, err := insist(ctx, func(ctx context.Context) (guardedTo, error) {
				if err := os.RemoveAll(dir); err != nil { // what an earlier attempt has left of it
					return guardedTo{}, fmt.Errorf("remove what restore-guard has left: %w", err)
				}
				return b.guard(ctx, append([]string{"--snapshot", snapshot, "--data-dir", dir}, flags...)...)
			})
			if err != nil {
				return err
			}
			return moved.add(g)
		})
		if err != nil {
			return 0, "", err
		}
	}
	g, err := insist(ctx, func(ctx context.Context) (guardedTo, error) { return b.guard(ctx) })
	if err != nil {
		return 0, "", err
	}
	if g.EndedSessions == nil {
		return 0, "", failing("restore-guard does not say whether it ended the sessions")
	}
	if !b.onEtcd() {
		if err := moved.add(g); err != nil {
			return 0, "", err
		}
	}
	return moved.next, fmt.Sprintf("restore-guard moved the store from token %d: the next one is %d or above; it ended %d sessions", moved.from, moved.next, *g.EndedSessions), nil
}

// moves is how far the store was moved, by all that tell of it.
type moves struct{ from, next int64 }

// add takes what a step says that moves the store. Every member of etcd is made from the same snapshot, and stands where the
// others do.
func (m *moves) add(g guardedTo) error {
	switch {
	case g.StoodAt == nil || g.NextToken == nil || *g.NextToken <= *g.StoodAt:
		return failing("restore-guard does not say that it moved the store: it stood at %s, and the next token is %s", orNothing(g.StoodAt), orNothing(g.NextToken))
	case m.next != 0 && *m != moves{*g.StoodAt, *g.NextToken}:
		return failing("restore-guard moved one member from %d to %d, and another from %d to %d", m.from, m.next, *g.StoodAt, *g.NextToken)
	}
	*m = moves{*g.StoodAt, *g.NextToken}
	return nil
}

func orNothing(n *int64) string {
	if n == nil {
		return "nothing"
	}
	return fmt.Sprint(*n)
}

// The store that was just started may have an election yet, and paydb, which every step of the guard reads, may have been
// killed or be without room. Either serves again within a few seconds. Carrying the guard out twice is safe, as the runbook
// says.
const (
	guardFor   = 15 * time.Second
	guardEvery = 500 * time.Millisecond
)

// insist runs a step of the guard again where it was refused, as an operator would.
func insist(ctx context.Context, step func(context.Context) (guardedTo, error)) (done guardedTo, err error) {
	for end := time.Now().Add(guardFor); ; {
		if done, err = step(ctx); err == nil || time.Now().After(end) {
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
	if ran := (local.ExitError{}); errors.As(err, &ran) {
		return g, nemesis.RunbookError{Err: err}
	}
	if err != nil {
		return g, err
	}
	return readGuarded(text)
}

// failing is what restore-guard did or said that it must not: the system has failed then, and not the harness.
func failing(format string, args ...any) error {
	return nemesis.RunbookError{Err: fmt.Errorf(format, args...)}
}

// readGuarded finds what restore-guard did in all that it printed, for programs and for people.
func readGuarded(text string) (g guardedTo, err error) {
	found := 0
	for at := range text {
		if text[at] != '{' || at > 0 && text[at-1] != '\n' {
			continue
		}
		var said guardedTo
		if err := json.NewDecoder(strings.NewReader(text[at:])).Decode(&said); err != nil {
			return g, failing("read what restore-guard did: %w", err)
		}
		if said.Backend != "" {
			g, found = said, found+1
		}
	}
	if found != 1 {
		return g, failing("restore-guard says %d times what it did, and has to say it once: %q", found, text)
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
	if err := b.t.evidence.beginEpoch(ctx, b.t.Stack); err != nil {
		return err
	}
	return b.start(ctx, local.LockServer)
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
