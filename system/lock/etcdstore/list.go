package etcdstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"fenceproof/system/lock"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// listed is the most keys that one page looks at: the sessions of as many grants are asked for in one transaction, and
// etcd takes 128 operations in one.
const listed = 100

var _ lock.Lister = (*Store)(nil)

// ListGrants lists the grants that were live at one revision, in order of their keys' bytes.
func (s *Store) ListGrants(ctx context.Context, q lock.ListQuery) (lock.GrantPage, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	p, err := s.listGrants(ctx, q)
	if err != nil {
		return lock.GrantPage{}, fmt.Errorf("list the grants: %w", err)
	}
	return p, nil
}

func (s *Store) listGrants(ctx context.Context, q lock.ListQuery) (p lock.GrantPage, err error) {
	kvs, more, revision, err := s.keys(ctx, lockPrefix+q.KeyPrefix, lockPrefix, q)
	if err != nil {
		return p, err
	}
	all := make([]held, len(kvs))
	var sessions []clientv3.Op
	var leases []held
	for i, kv := range kvs {
		if all[i], err = heldOf(kv); err != nil {
			return p, err
		}
		sessions = append(sessions, clientv3.OpGet(sessionPrefix+all[i].sessionID, clientv3.WithCountOnly(), clientv3.WithRev(revision)))
	}
	if more {
		p.After, _ = lockOf(kvs[len(kvs)-1].Key)
	}
	if len(kvs) == 0 {
		return p, nil
	}
	r, err := s.txn(ctx, nil, sessions, nil)
	if err != nil {
		return p, err
	}
	for i, h := range all {
		if r.Responses[i].GetResponseRange().Count > 0 && (q.OwnerID == "" || h.ownerID == q.OwnerID) {
			key, _ := lockOf(kvs[i].Key)
			p.Grants = append(p.Grants, h.grant(key, time.Time{}))
			leases = append(leases, h)
		}
	}
	return p, atOnce(ctx, len(p.Grants), func(ctx context.Context, i int) (err error) {
		p.Grants[i].ExpiresAt, err = s.expiry(ctx, p.Grants[i].Key, leases[i])
		return err
	})
}

// atOnce does n things, some of them at once: the leases of a whole page, asked for one after the other, would take longer
// than an operation may. What has ended since was live at the page's revision, and is listed.
func atOnce(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(asked)
	for i := range n {
		asking.Go(func() error { return do(ctx, i) })
	}
	return asking.Wait()
}

// ListSessions lists the sessions that were live at one revision, in order of their ids.
func (s *Store) ListSessions(ctx context.Context, q lock.ListQuery) (lock.SessionPage, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	p, err := s.listSessions(ctx, q)
	if err != nil {
		return lock.SessionPage{}, fmt.Errorf("list the sessions: %w", err)
	}
	return p, nil
}

func (s *Store) listSessions(ctx context.Context, q lock.ListQuery) (p lock.SessionPage, err error) {
	kvs, more, revision, err := s.keys(ctx, sessionPrefix, sessionPrefix, q)
	if err != nil {
		return p, err
	}
	if more {
		p.After, _ = sessionOf(kvs[len(kvs)-1].Key)
	}
	// The counts are told, never relied on: a watch that is behind makes them old, and fails nothing.
	counting, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	s.view.reach(counting, revision)
	var leases []int64
	for _, kv := range kvs {
		id, _ := sessionOf(kv.Key)
		var v sessionValue
		if err := json.Unmarshal(kv.Value, &v); err != nil {
			return p, fmt.Errorf("key %q of etcd holds no session: %w", kv.Key, err)
		}
		if q.OwnerID != "" && v.OwnerID != q.OwnerID {
			continue
		}
		p.Sessions = append(p.Sessions, lock.HeldSession{Held: s.view.heldBy(id),
			Session: lock.Session{ID: id, OwnerID: v.OwnerID, TTL: fromMillis(v.TTLMillis)}})
		leases = append(leases, kv.Lease)
	}
	return p, atOnce(ctx, len(p.Sessions), func(ctx context.Context, i int) (err error) {
		p.Sessions[i].ExpiresAt, err = s.sessionExpiry(ctx, p.Sessions[i].ID, leases[i])
		return err
	})
}

// keys reads the page of q among the keys that begin with prefix; After is the rest of a key behind space.
func (s *Store) keys(ctx context.Context, prefix, space string, q lock.ListQuery) (kvs []*mvccpb.KeyValue, more bool, revision int64, err error) {
	from := prefix
	if q.After != "" {
		from = max(from, space+q.After+"\x00")
	}
	r, err := s.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
		clientv3.WithLimit(int64(min(q.Limit, listed))))}, nil)
	if err != nil {
		return nil, false, 0, err
	}
	found := r.Responses[0].GetResponseRange()
	return found.Kvs, found.More, r.Header.Revision, nil
}

// sessionExpiry is expiry, of a session.
func (s *Store) sessionExpiry(ctx context.Context, id string, lease int64) (time.Time, error) {
	now := time.Now()
	if deadline := s.view.sessionDeadline(id); now.Before(deadline) {
		return wall(deadline), nil
	}
	left, _, err := s.leases.remaining(ctx, lease)
	return wall(now.Add(left)), err
}

// sessionDeadline is when the session's lease runs out by what this process has sent; zero: it sent nothing.
func (v *view) sessionDeadline(id string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if x := v.sessions[id]; x != nil {
		return x.deadline
	}
	return time.Time{}
}
