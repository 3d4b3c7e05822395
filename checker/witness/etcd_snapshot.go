package witness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// beginEpoch begins a later epoch than the first: etcd was put back to an older state, and what its history says of the
// time before is either compacted or a second telling of what was recorded already. What is there now is recorded as one
// commit (see Snapshot), and the watch begins behind it.
func (w *Etcd) beginEpoch(ctx context.Context) error {
	at, kvs, err := w.readAll(ctx)
	if err != nil {
		return err
	}
	changes, err := w.rows.begin(kvs)
	if err != nil {
		return fmt.Errorf("revision %d: %w", at, err)
	}
	if len(changes) > 0 {
		e := history.Event{Type: contract.OK, Proc: w.proc, Op: history.OpCommit, LSN: decimal(at), Epoch: w.epoch, Changes: changes, Msg: Snapshot}
		if !fits(&e, sizeOf(changes)) {
			return errSnapshotTooLong
		}
		w.sink.Record(w.witness, e)
	}
	w.place.begun, w.place.through = at, at
	w.pass(at)
	return nil
}

// readAll reads all that the lock keeps, and the revision of that, at the first member that answers. It is a linearizable
// read: nothing that was committed before is missing.
func (w *Etcd) readAll(ctx context.Context) (int64, []*mvccpb.KeyValue, error) {
	for {
		var errs []error
		for _, m := range w.members {
			r, err := m.readLocks(ctx)
			if err == nil {
				return r.Header.Revision, r.Kvs, w.sameCluster(r.Header.ClusterId)
			}
			errs = append(errs, err)
		}
		if !pause(ctx, retryEvery) {
			return 0, nil, errors.Join(errs...)
		}
	}
}

func (m *member) readLocks(ctx context.Context) (*etcdserverpb.RangeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := m.kv.Range(ctx, &etcdserverpb.RangeRequest{Key: []byte(etcdPrefix), RangeEnd: []byte(etcdPrefixEnd)}, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return nil, fmt.Errorf("read what etcd at %s keeps of the lock: %w", m.url, err)
	}
	return r, nil
}

// begin takes what is there, sessions first: a grant without its session has ended, and is only to be cleaned away.
func (l *lockRows) begin(kvs []*mvccpb.KeyValue) (changes []history.Change, err error) {
	for _, sessions := range []bool{true, false} {
		for _, kv := range kvs {
			key := string(kv.Key)
			if strings.HasPrefix(key, sessionPrefix) != sessions {
				continue
			}
			there := *kv
			there.CreateRevision = kv.ModRevision // as what is seen first
			was := len(changes)
			if changes, err = l.take(changes, &mvccpb.Event{Type: mvccpb.PUT, Kv: &there}); err != nil {
				return nil, err
			}
			if g := l.grants[strings.TrimPrefix(key, lockPrefix)]; g != nil && strings.HasPrefix(key, lockPrefix) && l.sessions[g.row["session_id"]] == nil {
				g.living = false
				changes = changes[:was]
			}
		}
	}
	return changes, nil
}
