// Package etcdstore is the lock backend on etcd. A grant is a key with a lease of its own; its token is the revision of
// the transaction that put the key. It lives while its key and the key of its session exist, and etcd's leases alone
// decide how long that is. docs/contract.md, "The lock in etcd", has the layout.
package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/lock/turns"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Limits of one operation. A call that is not answered within callTimeout is given up: what it did is not known. After
// suspectAfter it goes on, but later calls are made to another member: a member that is cut off answers nobody, and must not
// hold everybody up for as long as a lease lasts.
const (
	callTimeout      = 2 * time.Second
	suspectAfter     = 500 * time.Millisecond
	operationTimeout = 3 * time.Second
)

// Store is a lock.Store on one etcd cluster, under the prefix "fenceproof/".
type Store struct {
	members *members
	leases  *leases
	view    *view
	turns   *turns.Turns // one acquire per key at a time: those of one key would only make one another's transactions fail
	log     *slog.Logger
	stop    context.CancelFunc
	done    sync.WaitGroup
}

var _ lock.Store = (*Store)(nil)

// Open makes a Store on the cluster whose members serve clients at endpoints (http://host:port). It does not wait for
// etcd: until that answers, every operation is ErrUnavailable. Close ends it.
func Open(endpoints []string, log *slog.Logger) (*Store, error) {
	m, err := connect(endpoints)
	if err != nil {
		return nil, fmt.Errorf("open the lock store: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{members: m, view: newView(log), turns: turns.New(), log: log, stop: stop}
	s.leases = newLeases(s)
	s.done.Go(func() { s.follow(ctx) })
	s.done.Go(func() { s.leases.bury(ctx) })
	return s, nil
}

// Close ends the store's goroutines and connections. Leases that hold no key end by themselves.
func (s *Store) Close() {
	s.stop()
	s.done.Wait()
	s.members.close()
}

// Ping asks for something that only a quorum can answer.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(prefix, clientv3.WithCountOnly())}, nil)
	if err != nil {
		return fmt.Errorf("ping the lock store: %w", err)
	}
	return nil
}

// txn is one transaction. One without a writing operation is a linearizable read, for which nothing is written.
func (s *Store) txn(ctx context.Context, compare []clientv3.Cmp, then, otherwise []clientv3.Op) (r *clientv3.TxnResponse, err error) {
	err = s.ask(ctx, func(ctx context.Context, m *member) error {
		r, err = m.Txn(ctx).If(compare...).Then(then...).Else(otherwise...).Commit()
		return err
	})
	return r, err
}

// ask makes one call, once, to the member that is asked at present. A member that does not answer is not asked next.
func (s *Store) ask(ctx context.Context, call func(context.Context, *member) error) error {
	m, _ := s.members.current()
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	suspect := time.AfterFunc(suspectAfter, func() { s.members.failed(m) })
	defer suspect.Stop()
	err := outcome(call(limited, m))
	if errors.Is(err, lock.ErrUnavailable) && ctx.Err() == nil && !everywhere(err) {
		s.members.failed(m)
	}
	return err
}
