package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Keys of etcd, as the store lays them out: a session's grants live as long as its key does.
const (
	sessionPrefix = "fenceproof/session/"
	restorePrefix = "fenceproof/restore/"
)

// callTimeout bounds one call to etcd.
const callTimeout = 10 * time.Second

// Etcd is the second step of the guard of the etcd backend, on the cluster that was started from restored data.
type Etcd struct{ Endpoints []string }

// Standing is where a cluster stands.
type Standing struct {
	Revision  int64
	Compacted int64 // revisions up to here are gone; 0 for none
	Sessions  int64
}

// Check tells whether the cluster was restored by the first step and has not granted anything since that paydb has seen:
// the step has marked everything up to its bumped revision as compacted, and that is past paydb's highest token.
func (x Standing) Check(s Seen) error {
	switch {
	case x.Revision < s.Token:
		return fmt.Errorf("etcd stands at revision %d and paydb has seen %s: this cluster would hand out tokens again. Stop it, and restore it by restore-guard --snapshot", x.Revision, s)
	case x.Compacted <= s.Token:
		return fmt.Errorf("etcd has compacted revisions up to %d and paydb has seen %s: either this cluster was not restored by restore-guard --snapshot, or it is in use again since", x.Compacted, s)
	}
	return nil
}

// Read tells where the cluster stands.
func (e Etcd) Read(ctx context.Context) (x Standing, err error) {
	err = e.with(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Get(ctx, sessionPrefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		x.Revision, x.Sessions = r.Header.Revision, r.Count
		x.Compacted, err = compacted(ctx, c)
		return err
	})
	if err != nil {
		return Standing{}, fmt.Errorf("ask etcd where it stands: %w", err)
	}
	return x, nil
}

// compacted is the revision up to which history is gone. Who reads below it is refused, and who watches is told where it is.
func compacted(ctx context.Context, c *clientv3.Client) (int64, error) {
	_, err := c.Get(ctx, restorePrefix, clientv3.WithRev(1))
	if err == nil || !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range c.Watch(clientv3.WithRequireLeader(ctx), restorePrefix, clientv3.WithRev(1)) {
		if r.CompactRevision > 0 {
			return r.CompactRevision, nil
		}
		if err := r.Err(); err != nil {
			return 0, err
		}
	}
	return 0, context.Cause(ctx)
}

// restoreValue is what is kept of a guard, for ever.
type restoreValue struct {
	Revision      int64     `json:"revision"`
	HighestSeen   int64     `json:"highestSeen"`
	EndedSessions int64     `json:"endedSessions"`
	Operator      string    `json:"operator"`
	Reason        string    `json:"reason"`
	GuardedAt     time.Time `json:"guardedAt"`
}

// EndSessions ends all sessions in one transaction, and writes down who asked.
func (e Etcd) EndSessions(ctx context.Context, o Order, before Standing) (ended int64, err error) {
	value, err := json.Marshal(restoreValue{before.Revision, o.Seen.Token, before.Sessions, o.Operator, o.Reason, time.Now().UTC()})
	if err != nil {
		return 0, fmt.Errorf("write down who asked: %w", err)
	}
	err = e.with(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Txn(ctx).Then(clientv3.OpDelete(sessionPrefix, clientv3.WithPrefix()),
			clientv3.OpPut(restorePrefix+uuid.NewString(), string(value))).Commit()
		if err != nil {
			return unanswered(err)
		}
		ended = r.Responses[0].GetResponseDeleteRange().Deleted
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("end all sessions in etcd: %w", err)
	}
	return ended, nil
}

// unanswered tells what etcd refused from what it did not answer.
func unanswered(err error) error {
	var answer rpctypes.EtcdError
	if errors.As(err, &answer) && (errors.Is(answer, rpctypes.ErrNoSpace) || errors.Is(answer, rpctypes.ErrPermissionDenied)) {
		return err
	}
	return &UnknownError{err}
}

func (e Etcd) with(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return do(ctx, c)
}
