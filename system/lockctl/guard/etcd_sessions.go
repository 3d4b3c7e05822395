package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"fenceproof/system/lock/etcdstore"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Limits of talking to etcd: of finding a member, and of everything else.
const (
	dialTimeout = 2 * time.Second
	callTimeout = 10 * time.Second
)

// Etcd is the second step of the guard of the etcd backend, on the cluster that was started from restored data.
type Etcd struct{ Endpoints []string } // http://host:port

// Standing is where a cluster stands.
type Standing struct {
	Revision  int64
	Compacted int64 // revisions up to here are gone; 0 for none
	LastPut   int64 // the revision of the lock's youngest key; 0 for none
	Guarded   bool  // that key is what a guard wrote down
	Sessions  int64
}

// Check tells whether the cluster was restored by the first step and is not in use again. The step marks everything up to
// its bumped revision as compacted: the mark is past paydb's highest token, and past whatever the snapshot holds by the
// bump. A cluster that compacts by itself, or was guarded after an earlier restore, has no such gap.
func (x Standing) Check(s Seen) error {
	const either = "either this cluster was not restored by restore-guard --snapshot, or it is in use again since"
	switch {
	case x.Revision < s.Token:
		return fmt.Errorf("etcd stands at revision %d and paydb has seen %s: this cluster would hand out tokens again. Stop it, and restore it by restore-guard --snapshot", x.Revision, s)
	case x.Compacted <= s.Token:
		return fmt.Errorf("etcd has compacted revisions up to %d and paydb has seen %s: %s", x.Compacted, s, either)
	case x.Guarded && x.LastPut > x.Compacted:
		return fmt.Errorf("this cluster was guarded already, at revision %d; keys under %s tell by whom and why. If that was after this restore, nothing is left to do. If not, stop it, and restore it by restore-guard --snapshot",
			x.LastPut, etcdstore.RestorePrefix)
	case x.Compacted < x.LastPut+Bump:
		return fmt.Errorf("etcd has compacted revisions up to %d, which is not %d past the lock's last write, of revision %d: %s", x.Compacted, int64(Bump), x.LastPut, either)
	}
	return nil
}

// Read tells where the cluster stands.
func (e Etcd) Read(ctx context.Context) (x Standing, err error) {
	err = e.with(ctx, func(ctx context.Context, c *clientv3.Client) error {
		youngest := append(clientv3.WithLastRev(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
		r, err := c.Txn(ctx).Then(clientv3.OpGet(etcdstore.SessionPrefix, clientv3.WithPrefix(), clientv3.WithCountOnly()),
			clientv3.OpGet(etcdstore.Prefix, youngest...)).Commit()
		if err != nil {
			return err
		}
		x.Revision, x.Sessions = r.Header.Revision, r.Responses[0].GetResponseRange().Count
		for _, kv := range r.Responses[1].GetResponseRange().Kvs {
			x.LastPut, x.Guarded = kv.ModRevision, strings.HasPrefix(string(kv.Key), etcdstore.RestorePrefix)
		}
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
	_, err := c.Get(ctx, etcdstore.RestorePrefix, clientv3.WithRev(1))
	if err == nil || !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range c.Watch(clientv3.WithRequireLeader(ctx), etcdstore.RestorePrefix, clientv3.WithRev(1)) {
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
		r, err := c.Txn(ctx).Then(clientv3.OpDelete(etcdstore.SessionPrefix, clientv3.WithPrefix()),
			clientv3.OpPut(etcdstore.RestorePrefix+uuid.NewString(), string(value))).Commit()
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

// with does something with the cluster, once a member can be reached: the client itself would go on trying, and in the end
// say nothing but that time is up.
func (e Etcd) with(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	if err := e.reach(ctx); err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := do(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(e.Endpoints, ", "), err)
	}
	return nil
}

// reach opens a connection to one of the members. Its error says why there is none to any of them.
func (e Etcd) reach(ctx context.Context) error {
	var errs []error
	for _, endpoint := range e.Endpoints {
		conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", strings.TrimPrefix(endpoint, "http://"))
		if err == nil {
			return conn.Close()
		}
		errs = append(errs, fmt.Errorf("%s: %w", endpoint, err))
	}
	return fmt.Errorf("no member can be reached (ETCD_ENDPOINTS, --endpoints): %w", errors.Join(errs...))
}
