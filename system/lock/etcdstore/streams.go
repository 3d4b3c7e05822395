package etcdstore

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// idleStreams bounds the streams to a member that are kept for a next call.
const idleStreams = 32

// streams are the streams on which a member is asked to keep leases alive. Opening one costs both sides as much as the
// question, so they are kept. One serves one call at a time: etcd answers a stream's questions one after the other, and
// takes its time over a lease that is just running out.
type streams struct {
	ctx    context.Context // ends with the member's client
	leases etcdserverpb.LeaseClient
	idle   chan *stream
}

type stream struct {
	etcdserverpb.Lease_LeaseKeepAliveClient
	end context.CancelFunc
}

func newStreams(ctx context.Context, leases etcdserverpb.LeaseClient) *streams {
	return &streams{ctx: clientv3.WithRequireLeader(ctx), leases: leases, idle: make(chan *stream, idleStreams)}
}

// keep asks on an idle stream, or on a new one. Where the idle one turns out to be broken it asks again on a new one: a
// lease that is kept alive twice lasts its TTL from the second time, and nothing else comes of it.
func (s *streams) keep(ctx context.Context, id int64) error {
	select {
	case x := <-s.idle:
		if err := s.keepOn(ctx, x, id); err == nil || errors.Is(err, errNoLease) || ctx.Err() != nil {
			return err
		}
	default:
	}
	x, err := s.open(ctx)
	if err != nil {
		return err
	}
	return s.keepOn(ctx, x, id)
}

// open opens a stream, which outlives ctx.
func (s *streams) open(ctx context.Context) (*stream, error) {
	whole, end := context.WithCancel(s.ctx)
	stop := context.AfterFunc(ctx, end)
	c, err := s.leases.LeaseKeepAlive(whole)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, err
	}
	return &stream{c, end}, nil
}

// keepOn asks on x, which is kept when it has answered what it was asked.
func (s *streams) keepOn(ctx context.Context, x *stream, id int64) error {
	stop := context.AfterFunc(ctx, x.end)
	err := x.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: id})
	var r *etcdserverpb.LeaseKeepAliveResponse
	if err == nil {
		r, err = x.Recv()
	}
	if !stop() || err != nil || r.ID != id {
		x.end()
	} else {
		s.putBack(x)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case r.ID != id:
		return fmt.Errorf("asked of lease %x, etcd answered of %x", id, r.ID)
	case r.TTL <= 0:
		return errNoLease
	}
	return nil
}

func (s *streams) putBack(x *stream) {
	select {
	case s.idle <- x:
	default:
		x.end()
	}
}
