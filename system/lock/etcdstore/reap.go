package etcdstore

import (
	"context"
	"fmt"
	"time"

	"fenceproof/system/lock"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// reapLimit bounds the keys that one pass removes: they share a transaction, and etcd takes 128 operations in one.
const reapLimit = 100

// Reap tells what has expired since the last pass among what this process has served, and removes the locks' keys that
// dead sessions left. Those grants are over since their session ended; this is nothing but cleaning.
func (s *Store) Reap(ctx context.Context) (lock.Reaped, error) {
	r, orphans, synced := s.view.due()
	if !synced {
		return r, fmt.Errorf("reap: %w: the watch is not established", lock.ErrUnavailable)
	}
	r.More = len(orphans) == reapLimit
	if len(orphans) == 0 {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := s.remove(ctx, orphans); err != nil {
		return r, fmt.Errorf("remove the keys of dead sessions: %w", err)
	}
	return r, nil
}

// due takes what expired since the last call, and names locks whose session is gone.
func (v *view) due() (ended lock.Reaped, orphans map[string]held, synced bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ended, v.ended = v.ended, lock.Reaped{}
	orphans = map[string]held{}
	for key := range v.orphans {
		if len(orphans) == reapLimit {
			break
		}
		orphans[key] = v.locks[key].held
	}
	return ended, orphans, v.synced
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
			s.leases.drop(&lease{id: h.lease, ttl: h.ttl, sent: time.Now()})
		}
	}
	return nil
}
