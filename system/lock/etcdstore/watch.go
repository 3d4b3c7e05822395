package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"fenceproof/system/lock"

	"github.com/cenkalti/backoff/v5"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// askAfter is how long the watch may be quiet before it is asked whether it still lives.
	askAfter = time.Second
	// silence is how long it may be quiet before it is opened anew.
	silence = 4 * time.Second
)

// follow keeps the view by one watch over the whole prefix, and opens it anew when it breaks, until ctx ends.
func (s *Store) follow(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, time.Second
	for ctx.Err() == nil {
		err := s.hear(ctx, pause.Reset)
		news := s.view.lost(err)
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelDebug
		if news {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "the watch broke and is opened again", "error", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// hear loads the view as it is at one revision and applies everything after it until the watch breaks.
func (s *Store) hear(ctx context.Context, opened func()) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	m, changed := s.members.current()
	from, err := s.load(ctx)
	if err != nil {
		return err
	}
	events := m.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from+1), clientv3.WithCreatedNotify())
	quiet := time.NewTicker(askAfter)
	defer quiet.Stop()
	heard, created := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			return errors.New("another member is asked")
		case r, ok := <-events:
			if !ok {
				return errors.New("the watch has ended")
			}
			if err := r.Err(); err != nil {
				return fmt.Errorf("watch %q: %w", prefix, err)
			}
			if heard = time.Now(); r.Created {
				created = true
				opened()
			}
			s.view.apply(r)
		case <-s.view.wanted:
			askProgress(ctx, m, created)
		case <-quiet.C:
			if time.Since(heard) > silence {
				return fmt.Errorf("the watch said nothing for %s", silence)
			}
			if time.Since(heard) > askAfter {
				askProgress(ctx, m, created)
			}
		}
	}
}

// askProgress has the watch say up to where it has told everything. One that was not created yet could say so although it
// has told nothing.
func askProgress(ctx context.Context, m *member, created bool) {
	if !created {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askAfter)
	defer cancel()
	_ = m.RequestProgress(ctx) // no answer is what silence is about
}

// load reads all locks and sessions at one revision, which it returns.
func (s *Store) load(ctx context.Context) (int64, error) {
	r, err := s.txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(lockPrefix, clientv3.WithPrefix()), clientv3.OpGet(sessionPrefix, clientv3.WithPrefix())}, nil)
	if err != nil {
		return 0, fmt.Errorf("read all locks and sessions: %w", err)
	}
	locks, sessions := r.Responses[0].GetResponseRange().Kvs, r.Responses[1].GetResponseRange().Kvs
	s.view.load(r.Header.Revision, locks, sessions)
	return r.Header.Revision, nil
}

// load replaces the view by what etcd has at revision. What this process did later, or knows besides, is kept.
func (v *view) load(revision int64, locks, sessions []*mvccpb.KeyValue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, gone := v.locks, v.sessions
	v.locks, v.sessions, v.orphans = map[string]*entry{}, map[string]*presence{}, map[string]int64{}
	for id, x := range gone {
		if x.created > revision {
			x.keys = map[string]struct{}{}
			v.sessions[id] = x
		}
	}
	for _, kv := range sessions {
		v.applySession(kv, gone)
	}
	for key, e := range before {
		if e.token > revision {
			v.set(key, *e)
		}
	}
	for _, kv := range locks {
		v.applyLock(kv, before)
	}
	maps.DeleteFunc(v.ends, func(_ string, at int64) bool { return at <= revision })
	for key := range v.waiters {
		v.wake(key) // whatever happened meanwhile was not heard
	}
	v.advance(revision, true)
}

// lost says that nothing is told any more, and tells whether that, or the reason, is news.
func (v *view) lost(reason error) (news bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	news = v.synced || v.lastErr == nil || v.lastErr.Error() != reason.Error()
	v.lastErr = reason
	v.advance(0, false)
	return news
}

// apply takes in what the watch has said. Revisions come whole and in order.
func (v *view) apply(r clientv3.WatchResponse) {
	v.mu.Lock()
	defer v.mu.Unlock()
	revision := int64(0)
	if r.IsProgressNotify() {
		revision = r.Header.Revision
	}
	for _, e := range r.Events {
		revision = e.Kv.ModRevision
		v.applyEvent(e)
	}
	v.advance(revision, true)
}

// applyEvent takes in one event; that of a revocation says nothing here.
func (v *view) applyEvent(e *clientv3.Event) {
	deleted := e.Type == clientv3.EventTypeDelete
	if key, ok := lockOf(e.Kv.Key); ok && deleted {
		v.deleted(key, e.Kv.ModRevision)
	} else if ok {
		v.applyLock(e.Kv, v.locks)
	}
	if id, ok := sessionOf(e.Kv.Key); ok && deleted {
		v.sessionDeleted(id)
	} else if ok {
		v.applySession(e.Kv, v.sessions)
	}
}

// applyLock takes in a lock's key as etcd has it. One that cannot be read is left aside. The caller holds mu.
func (v *view) applyLock(kv *mvccpb.KeyValue, known map[string]*entry) {
	key, _ := lockOf(kv.Key)
	h, err := heldOf(kv)
	if err != nil {
		v.complain(kv.Key, err)
		v.unset(key)
		return
	}
	if newer := v.locks[key]; newer != nil && newer.token > h.token || h.token < v.ends[key] {
		return // this process has done something since
	}
	e := entry{held: h}
	if old := known[key]; old != nil && old.token == h.token {
		e.deadline, e.own = old.deadline, old.own
	}
	v.set(key, e)
}

// applySession takes in a session's key as etcd has it; it is put once. One that cannot be read is a session nevertheless:
// its grants live while its key is there. The caller holds mu.
func (v *view) applySession(kv *mvccpb.KeyValue, known map[string]*presence) {
	id, _ := sessionOf(kv.Key)
	var value sessionValue
	if err := json.Unmarshal(kv.Value, &value); err != nil {
		v.complain(kv.Key, err)
		value = sessionValue{}
	}
	if v.sessions[id] != nil {
		return // opened by this process, which knows more
	}
	x := &presence{created: kv.CreateRevision, lease: kv.Lease, ownerID: value.OwnerID, ttl: fromMillis(value.TTLMillis), keys: map[string]struct{}{}}
	if old := known[id]; old != nil {
		x.deadline = old.deadline
	}
	v.sessions[id] = x
}

// deleted takes in the end of a lock's key. Who knows of the grant until when it lived, and sees it end no earlier and not
// by its own doing, has probably seen its lease expire. The caller holds mu.
func (v *view) deleted(key string, revision int64) {
	v.wake(key)
	if revision >= v.ends[key] {
		delete(v.ends, key)
	}
	e := v.locks[key]
	if e == nil || e.token > revision {
		return
	}
	if passed(e.deadline) {
		g := e.grant(key, wall(e.deadline))
		v.suspect(suspect{lease: e.lease, grant: &g})
	}
	v.unset(key)
}

// sessionDeleted takes in the end of a session. The caller holds mu.
func (v *view) sessionDeleted(id string) {
	x := v.sessions[id]
	if x != nil && passed(x.deadline) {
		v.suspect(suspect{lease: x.lease, session: &lock.Session{ID: id, OwnerID: x.ownerID, TTL: x.ttl, ExpiresAt: wall(x.deadline)}})
	}
	v.forgetSession(id)
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && time.Now().After(deadline) }
