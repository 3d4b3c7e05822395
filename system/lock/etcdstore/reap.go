package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"fenceproof/system/lock"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// reapLimit bounds the keys that one pass removes: they share a transaction, and etcd takes 128 operations in one.
const reapLimit = 100

// asked bounds the questions about leases that are asked of etcd at once.
const asked = 16

// Reap tells what has expired since the last pass among what this process has served, and removes the locks' keys that
// dead sessions left. Those grants are over since their session ended; this is nothing but cleaning.
func (s *Store) Reap(ctx context.Context) (lock.Reaped, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	d := s.view.due()
	r, err := s.expired(ctx, d.suspects)
	r.More = d.more
	switch {
	case err != nil:
		return r, fmt.Errorf("ask what has expired: %w", err)
	case d.down != nil:
		return r, fmt.Errorf("reap: %w: the watch is not established: %w", lock.ErrUnavailable, d.down)
	case len(d.orphans) == 0:
		return r, nil
	}
	if err := s.remove(ctx, d.orphans); err != nil {
		return r, fmt.Errorf("remove the keys of dead sessions: %w", err)
	}
	return r, nil
}

// due is what there is for Reap to do.
type due struct {
	suspects []suspect
	orphans  map[string]held // locks whose session is gone
	more     bool
	down     error // why the watch is not established
}

// errNotYet is why a watch is not established that never broke.
var errNotYet = errors.New("it was not opened yet")

func (v *view) due() due {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := min(len(v.suspects), reapLimit)
	d := due{suspects: v.suspects[:n:n], orphans: map[string]held{}}
	v.suspects = v.suspects[n:]
	for key := range v.orphans {
		if len(d.orphans) == reapLimit {
			break
		}
		d.orphans[key] = v.locks[key].held
	}
	d.more = n == reapLimit || len(d.orphans) == reapLimit
	if !v.synced {
		d.down = cmp.Or(v.lastErr, errNotYet)
	}
	return d
}

// expired tells which of the suspects have expired. The others were kept alive and ended by another process: their leases
// are still there, because that leaves them alone for a while. What could not be asked is asked at the next pass, and not
// told when that time is over.
func (s *Store) expired(ctx context.Context, all []suspect) (r lock.Reaped, err error) {
	ended, open := make([]bool, len(all)), make([]bool, len(all))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(asked)
	for i, x := range all {
		if time.Since(x.heard) < rest-callTimeout {
			asking.Go(func() (err error) {
				_, ended[i], err = s.leases.remaining(ctx, x.lease)
				open[i] = err != nil
				return err
			})
		}
	}
	err = asking.Wait()
	for i, x := range all {
		switch {
		case open[i]:
			s.view.again(x)
		case !ended[i]:
		case x.grant != nil:
			r.Grants = append(r.Grants, *x.grant)
		default:
			r.Sessions = append(r.Sessions, *x.session)
		}
	}
	return r, err
}

// again remembers x for another pass.
func (v *view) again(x suspect) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.suspects = append(v.suspects, x)
}

// remove deletes keys, each only where it still carries the dead session's grant and the session is indeed gone.
func (s *Store) remove(ctx context.Context, orphans map[string]held) error {
	var keys []string
	var ops []clientv3.Op
	for key, h := range orphans {
		keys = append(keys, key)
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{carries(key, h.token), absent(sessionPrefix + h.sessionID)},
			[]clientv3.Op{clientv3.OpDelete(lockPrefix + key)}, nil))
	}
	r, err := s.txn(ctx, nil, ops, nil)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if h := orphans[key]; r.Responses[i].GetResponseTxn().Succeeded {
			s.view.forget(key, h.token, r.Header.Revision)
			s.leases.discard(&lease{id: h.lease, ttl: h.ttl, sent: time.Now()}, 0)
		}
	}
	return nil
}
