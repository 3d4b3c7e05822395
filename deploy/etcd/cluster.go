package etcd

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Cluster is an etcd of one or more members.
type Cluster struct {
	members []*Member
	network *network // nil where members call one another directly
}

// Names are the members' names: name alone when there is one, else name-1 to name-n.
func Names(name string, n int) []string {
	if n == 1 {
		return []string{name}
	}
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", name, i+1))
	}
	return out
}

// Create makes a cluster of n members, an odd number; it may be 1. They are started by Start, and whoever creates them
// removes them by Remove.
func (in *Installation) Create(n int, o Options) (*Cluster, error) {
	if n < 1 || n%2 == 0 {
		return nil, fmt.Errorf("create %s: %d members are asked for, and a cluster has an odd number of them", o.Name, n)
	}
	c := &Cluster{}
	for _, name := range Names(o.Name, n) {
		m, err := in.newMember(name, o)
		if err != nil {
			return nil, errors.Join(err, c.Remove(context.Background()))
		}
		m.advertised = m.listenPeerURL()
		c.members = append(c.members, m)
	}
	if o.PeerLink != nil && n > 1 {
		var err error
		if c.network, err = connect(c.members, o.PeerLink); err != nil {
			return nil, errors.Join(err, c.Remove(context.Background()))
		}
	}
	var all []string
	for _, m := range c.members {
		all = append(all, m.name+"="+m.advertised)
	}
	for _, m := range c.members {
		m.cluster = all
	}
	return c, nil
}

// Members are the members, in the order of their numbers.
func (c *Cluster) Members() []*Member { return c.members }

// Start starts all members and waits until each is healthy. They start one after the other: a new member asks those before
// it whether they know it already, and one that listens and does not answer yet would hold it up for a second.
func (c *Cluster) Start(ctx context.Context) error {
	for _, m := range c.members {
		if err := m.Start(ctx); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, m := range c.members {
		g.Go(func() error { return m.AwaitHealthy(ctx) })
	}
	return g.Wait()
}

// Close kills what runs and closes the ways between the members. Their data stays, and with it all that was committed.
func (c *Cluster) Close(ctx context.Context) error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.Crash(ctx), m.releasePorts())
	}
	return errors.Join(append(errs, c.disconnect())...)
}

// Remove kills what runs, deletes all data and closes the ways between the members, but not their links. It goes on after a failure and reports all of them.
func (c *Cluster) Remove(ctx context.Context) error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.Crash(ctx), m.remove(ctx))
	}
	return errors.Join(append(errs, c.disconnect())...)
}

func (c *Cluster) disconnect() error {
	if c.network == nil {
		return nil
	}
	return c.network.close()
}
