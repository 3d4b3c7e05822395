package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// CreateStandby makes a streaming standby of i, which must run: a copy of its files, taken while it works, that replays i's
// log for as long as it is not promoted. It is started by Start, answers queries that only read, and follows i from then on;
// see AwaitStandby. through is the address, host and port, at which it reaches i: i's own where empty. i keeps its log for
// it by a slot, so a standby that is away for a time misses nothing.
func (i *Instance) CreateStandby(ctx context.Context, o Options, through string) (*Instance, error) {
	if through == "" {
		through = i.Address()
	}
	s, err := i.in.create(o, func(s *Instance) error { return i.copyTo(ctx, s, through) })
	if err != nil {
		return nil, fmt.Errorf("make a standby of %s: %w", i.name, err)
	}
	return s, nil
}

// standbySignal is the file that makes a server a standby when it starts. A promotion removes it.
const standbySignal = "standby.signal"

// copyTo makes s's data directory of a backup of i.
func (i *Instance) copyTo(ctx context.Context, s *Instance, through string) error {
	host, port, err := net.SplitHostPort(through)
	if err != nil {
		return fmt.Errorf("read the primary's address: %w", err)
	}
	slot := slotName(s.name)
	err = i.with(ctx, func(c *pgx.Conn) error {
		if _, err := c.Exec(ctx, dropStandbySlot, slot); err != nil {
			return fmt.Errorf("drop the slot of an earlier standby: %w", err)
		}
		if _, err := c.Exec(ctx, createStandbySlot, slot); err != nil {
			return fmt.Errorf("have the log kept: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := i.Backup(ctx, s.data); err != nil {
		return err
	}
	// The settings that the primary was told while it ran are not the standby's: least of all that commits wait for itself.
	own := fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=%s application_name=%s sslmode=disable gssencmode=disable'\nprimary_slot_name = '%s'\n",
		host, port, superuser, s.name, slot)
	return errors.Join(i.in.account.write(s.data, "postgresql.auto.conf", own), i.in.account.write(s.data, standbySignal, ""))
}

// slotName is an instance's name in the letters that a slot's may have.
func slotName(name string) string {
	return "standby_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
}

// write puts a file of the account's into a data directory, in the place of one that is there.
func (a account) write(data, name, text string) error {
	path := filepath.Join(data, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return a.own(path)
}

// AwaitStandby returns when the standby of that name has caught up with i and is sent its log as it is written: it has on its
// own disk what i had on its when it was asked. That i calls it one that it streams to may be of before it was cut off.
func (i *Instance) AwaitStandby(ctx context.Context, name string) error {
	var written int64
	err := i.with(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, flushedSQL).Scan(&written) })
	if err != nil {
		return fmt.Errorf("wait for %s to follow %s: %w", name, i.name, err)
	}
	return i.awaitStandby(ctx, name, func(state, _ string, flushed int64) bool { return state == "streaming" && flushed >= written })
}

// WaitForStandby has every commit of i wait from now on until the standby of that name has it on its own disk, and returns
// when that is so. What a client is told to be committed is on both then. It stays so when i is started again.
func (i *Instance) WaitForStandby(ctx context.Context, name string) error {
	err := i.with(ctx, func(c *pgx.Conn) error {
		// The name is a word of the setting's own grammar, and the setting a text of SQL's.
		value := strings.ReplaceAll(pgx.Identifier{name}.Sanitize(), "'", "''")
		if _, err := c.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+value+"'"); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "SELECT pg_reload_conf()")
		return err
	})
	if err != nil {
		return fmt.Errorf("have the commits of %s wait for %s: %w", i.name, name, err)
	}
	err = i.awaitStandby(ctx, name, func(state, sync string, _ int64) bool { return state == "streaming" && sync == "sync" })
	if err != nil {
		return err
	}
	// Commits go by what the checkpointer has read of the settings. It reads them before it begins a checkpoint.
	err = i.with(ctx, func(c *pgx.Conn) error { _, err := c.Exec(ctx, "CHECKPOINT"); return err })
	if err != nil {
		return fmt.Errorf("have the commits of %s wait for %s: %w", i.name, name, err)
	}
	return nil
}

func (i *Instance) awaitStandby(ctx context.Context, name string, good func(state, sync string, flushed int64) bool) error {
	last := "it is not connected"
	err := i.poll(ctx, func(c *pgx.Conn) (bool, error) {
		var state, sync string
		var flushed int64
		err := c.QueryRow(ctx, standbyState, name).Scan(&state, &sync, &flushed)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		last = fmt.Sprintf("%s, %s, with the log up to %d", state, sync, flushed)
		return good(state, sync, flushed), nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s to follow %s (%s): %w", name, i.name, last, err)
	}
	return nil
}

// EndClients ends every connection of user's, whatever it is at, and returns when none is left: nothing of theirs is committed
// any more. A commit that a standby is waited for stays committed, and is answered to nobody. Whoever can reach i may connect
// again, so user is to be cut off from it before.
func (i *Instance) EndClients(ctx context.Context, user string) error {
	var n int
	err := i.poll(ctx, func(c *pgx.Conn) (bool, error) {
		err := c.QueryRow(ctx, endClients, user).Scan(&n)
		return n == 0, err
	})
	if err != nil {
		return fmt.Errorf("end the %d connections of %s to %s: %w", n, user, i.name, err)
	}
	return nil
}

// AwaitWaiting returns when a commit of user's waits for a standby.
func (i *Instance) AwaitWaiting(ctx context.Context, user string) error {
	err := i.poll(ctx, func(c *pgx.Conn) (waits bool, err error) {
		err = c.QueryRow(ctx, commitWaits, user).Scan(&waits)
		return waits, err
	})
	if err != nil {
		return fmt.Errorf("see a commit of %s in %s wait for a standby: %w", user, i.name, err)
	}
	return nil
}

// AwaitBehind returns when standby, which was cut off from i, is seen to get nothing of what i goes on to write.
func (i *Instance) AwaitBehind(ctx context.Context, standby *Instance) error {
	const apart = 50 * time.Millisecond // far longer than anything takes between the two
	still, since := int64(-1), time.Time{}
	err := standby.with(ctx, func(there *pgx.Conn) error {
		return i.poll(ctx, func(c *pgx.Conn) (bool, error) {
			var flushed, received int64
			if err := c.QueryRow(ctx, flushedSQL).Scan(&flushed); err != nil {
				return false, err
			}
			if err := there.QueryRow(ctx, receivedSQL).Scan(&received); err != nil {
				return false, err
			}
			if received != still {
				still, since = received, time.Now()
			}
			return flushed > received && time.Since(since) >= apart, nil
		})
	})
	if err != nil {
		return fmt.Errorf("see that %s is behind %s: %w", standby.name, i.name, err)
	}
	return nil
}

// Promote makes a standby a server of its own, when it has replayed all that it has received, and returns when it is one.
// One that is promoted already stays so.
func (i *Instance) Promote(ctx context.Context) error {
	err := i.with(ctx, func(c *pgx.Conn) error {
		var standby, promoted bool
		if err := c.QueryRow(ctx, inRecovery).Scan(&standby); err != nil || !standby {
			return err
		}
		if err := c.QueryRow(ctx, promoteSQL, int(startLimit.Seconds())).Scan(&promoted); err != nil {
			return err
		}
		if !promoted {
			return fmt.Errorf("it still is a standby after %s", startLimit)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("promote %s: %w", i.name, err)
	}
	return nil
}

// connect opens a connection for the superuser.
func (i *Instance) connect(ctx context.Context) (*pgx.Conn, error) {
	c, err := pgx.Connect(ctx, i.SuperURL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", i.name, err)
	}
	return c, nil
}

// hangUp closes a connection whose answers have been read; a failed good-bye changes nothing.
func hangUp(ctx context.Context, c *pgx.Conn) { _ = c.Close(context.WithoutCancel(ctx)) }

func (i *Instance) with(ctx context.Context, do func(*pgx.Conn) error) error {
	c, err := i.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp(ctx, c)
	return do(c)
}

// poll asks over one connection until the answer is yes, and no longer than a start may take.
func (i *Instance) poll(ctx context.Context, yes func(*pgx.Conn) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return i.with(ctx, func(c *pgx.Conn) error {
		tick := time.NewTicker(look)
		defer tick.Stop()
		for {
			if done, err := yes(c); done || err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
			}
		}
	})
}
