package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Settings of a connection. A connection that says nothing is found dead after keepAliveTime + keepAliveTimeout; one
// that was refused is tried again soon, because a lock service that is late is down.
const (
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 2 * time.Second
	longestRedial    = 500 * time.Millisecond
)

// member is the client of one member of the cluster.
type member struct {
	*clientv3.Client
	leases  etcdserverpb.LeaseClient
	streams *streams
}

// members are those of the cluster, of which one is asked until it fails. Taking turns would send every nth call to a
// member that hangs.
type members struct {
	all []*member

	mu      sync.Mutex
	at      int
	changed chan struct{} // closed and replaced when another one is asked
}

func connect(endpoints []string) (*members, error) {
	if len(endpoints) == 0 {
		return nil, errors.New("no etcd endpoint is given")
	}
	m := &members{changed: make(chan struct{})}
	for _, e := range endpoints {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{e}, Logger: zap.NewNop(),
			DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout,
			DialOptions: []grpc.DialOption{
				grpc.WithUnaryInterceptor(once),
				grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: callTimeout, Backoff: backoff.Config{
					BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestRedial}})}})
		if err != nil {
			m.close()
			return nil, fmt.Errorf("make the client of %s: %w", e, err)
		}
		leases := etcdserverpb.NewLeaseClient(c.ActiveConnection())
		m.all = append(m.all, &member{c, leases, newStreams(c.Ctx(), leases)})
	}
	return m, nil
}

// once sends a call once. It stands in the place of the client's own interceptor, which sends again what it holds to be
// repeatable (lease grants among it) and anything, transactions too, that the server answered with a deadline of its
// own. A member that knows no leader says so at once.
func once(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, send grpc.UnaryInvoker, o ...grpc.CallOption) error {
	return send(clientv3.WithRequireLeader(ctx), method, request, reply, c, o...)
}

// current is the member to ask; changed is closed when that is another one.
func (m *members) current() (_ *member, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[m.at], m.changed
}

// failed has the next member asked, unless that is so already.
func (m *members) failed(x *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[m.at] != x || len(m.all) == 1 {
		return
	}
	m.at = (m.at + 1) % len(m.all)
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *members) close() {
	for _, x := range m.all {
		_ = x.Close() // there is nothing to learn from it
	}
}
