package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/postgres"

	"github.com/jackc/pgx/v5"
)

// LockDBStandby is the streaming standby of lockdb, where there is one. When it is promoted it is lockdb from then on: names
// are those of the parts that servers play.
const LockDBStandby = "lockdb-standby"

// Standby says what standby lockdb has.
type Standby string

// The standbys.
const (
	// NoStandby is none.
	NoStandby Standby = ""
	// SynchronousStandby is one that every commit waits for: what is answered is on both disks.
	SynchronousStandby Standby = "synchronous"
	// AsynchronousStandby is one that nobody waits for: what is answered may not be there yet.
	AsynchronousStandby Standby = "asynchronous"
)

// checkStandby refuses a standby of what is no PostgreSQL.
func (c Config) checkStandby() error {
	switch {
	case !slices.Contains([]Standby{NoStandby, SynchronousStandby, AsynchronousStandby}, c.Standby):
		return fmt.Errorf("boot the stack: standby %q is not known; there are %s and %s", c.Standby, SynchronousStandby, AsynchronousStandby)
	case c.Standby != NoStandby && c.Backend == BackendEtcd:
		return fmt.Errorf("boot the stack: a standby is one of lockdb's, and the lock backend is %s", BackendEtcd)
	}
	return nil
}

// openLockDB starts lockdb, and its standby where it has one.
func (s *Stack) openLockDB(ctx context.Context) error {
	if err := s.openDatabase(ctx, LockDB, LockServer, s.lockServerEnv); err != nil || s.config.Standby == NoStandby {
		return err
	}
	primary, err := s.database(LockDB)
	if err != nil {
		return err
	}
	if err := s.openLink(LockDBStandby, LockDB, primary.Address(), nil); err != nil {
		return err
	}
	return s.OpenStandby(ctx)
}

// OpenStandby makes a standby of whichever server is lockdb now, over a link of its own, and returns when it follows. From
// then on commits wait for it, if the configuration has them wait.
func (s *Stack) OpenStandby(ctx context.Context) error {
	primary, err := s.database(LockDB)
	if err != nil {
		return err
	}
	name, err := s.nextStandby()
	if err != nil {
		return err
	}
	if err := s.dropRetired(ctx); err != nil {
		return err
	}
	i, err := primary.CreateStandby(ctx, postgres.Options{
		Name: name, Folder: filepath.Join(s.config.RunDir, "data", name), Log: s.LogPath(name), Launcher: s.warden, Progress: s.config.Progress,
		Guard: func(folder string) error {
			return s.warden.Guard(ctx, warden.Leftover{Kind: warden.ServerData, Path: folder})
		},
	}, s.linkAddress(LockDBStandby, LockDB))
	if err != nil {
		return err
	}
	d := &database{Instance: i}
	s.mu.Lock()
	s.databases[LockDBStandby] = d
	s.mu.Unlock()
	if err := d.do(ctx, i.Start); err != nil { // nobody takes a first attempt that ends for a death
		return err
	}
	if s.config.Standby == SynchronousStandby {
		return primary.WaitForStandby(ctx, name)
	}
	return primary.AwaitStandby(ctx, name)
}

// dropRetired gives back what the servers hold that were lost, but for the latest: a run may lose any number of them. One that
// was lost and has to be looked at is most likely that, and with KeepData all of them stay.
func (s *Stack) dropRetired(ctx context.Context) error {
	s.mu.Lock()
	var gone []*database
	if n := len(s.retired); n > 1 && !s.keep {
		gone, s.retired = s.retired[:n-1:n-1], slices.Clone(s.retired[n-1:])
	}
	s.mu.Unlock()
	for i, d := range gone {
		if err := s.closeDatabase(ctx, d); err != nil {
			s.mu.Lock()
			s.retired = append(gone[i:], s.retired...)
			s.mu.Unlock()
			return fmt.Errorf("remove a server that was lost: %w", err)
		}
	}
	return nil
}

// nextStandby is the name of the next server that becomes a standby, for its folder and its log.
func (s *Stack) nextStandby() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.databases[LockDBStandby]; taken {
		return "", fmt.Errorf("make a standby: %s has one", LockDB)
	}
	if s.standbys++; s.standbys == 1 {
		return LockDBStandby, nil
	}
	return fmt.Sprintf("%s-%d", LockDBStandby, s.standbys), nil
}

// StarveStandby has nothing more reach lockdb's standby, and returns when lockdb was seen to have written what the standby
// has not. What was under way is lost.
func (s *Stack) StarveStandby(ctx context.Context) error {
	primary, standby, err := s.pair()
	if err != nil {
		return err
	}
	l, err := s.Link(LinkName(LockDBStandby, LockDB))
	if err != nil {
		return err
	}
	if err := l.Cut(ctx, Both); err != nil {
		return err
	}
	return primary.AwaitBehind(ctx, standby.Instance)
}

// AwaitWaitingCommit returns when a commit of the lock server's is seen to wait for a standby that was starved, and at once
// where none waits.
func (s *Stack) AwaitWaitingCommit(ctx context.Context) error {
	d, err := s.database(LockDB)
	if err != nil || s.config.Standby != SynchronousStandby {
		return err
	}
	return d.AwaitWaiting(ctx, owners[LockDB])
}

// FeedStandby takes StarveStandby back, and returns when the standby follows again.
func (s *Stack) FeedStandby(ctx context.Context) error {
	primary, standby, err := s.pair()
	if err != nil {
		return err
	}
	l, err := s.Link(LinkName(LockDBStandby, LockDB))
	if err != nil {
		return err
	}
	if err := l.Heal(ctx); err != nil {
		return err
	}
	return primary.AwaitStandby(ctx, standby.Instance.Name())
}

// CutOffLockDB cuts the lock server off from lockdb, and ends what lockdb was doing for it. When it returns all that the lock
// server had asked for is committed or will never be: a statement that waits for a standby, or for a row, would go on by
// itself as soon as that moves, and commit when lockdb's log has been read.
func (s *Stack) CutOffLockDB(ctx context.Context) error {
	l, err := s.Link(LinkName(LockServer, LockDB))
	if err != nil {
		return err
	}
	if err := l.Cut(ctx, Both); err != nil {
		return err
	}
	return s.EndLockClients(ctx)
}

// EndLockClients ends the lock server's connections to lockdb, whatever they are at, and returns when none is left. Of a lockdb
// that has ended by itself all is ended that is left.
func (s *Stack) EndLockClients(ctx context.Context) error {
	d, err := s.database(LockDB)
	if err != nil {
		return err
	}
	if !d.Running() {
		return d.Kill(ctx)
	}
	return d.EndClients(ctx, owners[LockDB])
}

// PromoteStandby makes the standby what lockdb is, once the old one has been killed and is gone. The lock server does not
// reach it before ReconnectLockDB.
func (s *Stack) PromoteStandby(ctx context.Context) error {
	old, standby, err := s.pair()
	if err != nil {
		return err
	}
	if old.Running() {
		return fmt.Errorf("promote %s: %s still runs, and there would be two of them", LockDBStandby, LockDB)
	}
	if err := standby.do(ctx, standby.Promote); err != nil {
		return err
	}
	s.mu.Lock()
	s.databases[LockDB] = standby
	delete(s.databases, LockDBStandby)
	s.retired = append(s.retired, old)
	s.mu.Unlock()
	return nil
}

// ReconnectLockDB leads the links of lockdb to the server that it is now, and returns when that answers the lock server's
// user over the link that it is no standby. Connections to the old one end.
func (s *Stack) ReconnectLockDB(ctx context.Context) error {
	d, err := s.database(LockDB)
	if err != nil {
		return err
	}
	for _, from := range []string{LockDBStandby, LockServer} {
		l, err := s.Link(LinkName(from, LockDB))
		if err != nil {
			return err
		}
		if err := errors.Join(l.retarget(ctx, d.Address()), l.Heal(ctx)); err != nil {
			return err
		}
	}
	return s.awaitServing(ctx, d.Port())
}

// awaitServing asks over the lock server's link until the server on that port says that it is no standby.
func (s *Stack) awaitServing(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		serves, err := s.serves(ctx, port)
		if serves {
			return nil
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not seen to serve %s after the promotion: %w", LockDB, LockServer, context.Cause(ctx)), err)
		}
	}
}

// whoServes asks a server whether it is a standby, and on which port it is.
const whoServes = "SELECT NOT pg_is_in_recovery(), inet_server_port()"

func (s *Stack) serves(ctx context.Context, port int) (bool, error) {
	c, err := pgx.Connect(ctx, s.databaseURL(LockServer, LockDB))
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // the answer has been read
	var serves bool
	var at int
	if err := c.QueryRow(ctx, whoServes).Scan(&serves, &at); err != nil {
		return false, err
	}
	return serves && at == port, nil
}

// pair is lockdb and its standby.
func (s *Stack) pair() (primary, standby *database, err error) {
	if primary, err = s.database(LockDB); err != nil {
		return nil, nil, err
	}
	if standby, err = s.database(LockDBStandby); err != nil {
		return nil, nil, fmt.Errorf("find the standby of %s: %w", LockDB, err)
	}
	return primary, standby, nil
}

// retarget leads new connections of a link to another server and ends those that are open. What is broken stays broken.
func (l *Link) retarget(ctx context.Context, upstream string) error {
	if l.interposed != nil {
		return fmt.Errorf("lead link %s elsewhere: what is on it cannot be", l.Name())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.inTurn(ctx, func() error {
		l.proxy.Stop()
		l.proxy.Lock()
		l.proxy.Upstream = upstream
		l.proxy.Unlock()
		return nil
	})
	for err == nil {
		// Its clients know its port; a stranger's connection may have it for a moment.
		if err = l.inTurn(ctx, l.proxy.Start); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
		select {
		case <-time.After(look):
			err = nil
		case <-ctx.Done():
		}
	}
	if err != nil {
		return fmt.Errorf("lead link %s to %s: %w", l.Name(), upstream, err)
	}
	return nil
}
