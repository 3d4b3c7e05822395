package etcd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// Cluster is an etcd of one or more members.
type Cluster struct {
	members []*Member
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

// CreateCluster makes a cluster of n members, an odd number. They are started by Start, and whoever creates them removes
// them by Remove.
func (in *Installation) CreateCluster(n int, o Options) (*Cluster, error) {
	if n < 1 || n%2 == 0 {
		return nil, fmt.Errorf("create %s: %d members are asked for, and a cluster has an odd number of them", o.Name, n)
	}
	c := &Cluster{}
	for _, name := range Names(o.Name, n) {
		one := o
		one.Folder = filepath.Join(o.Folder, name)
		m, err := in.newMember(name, one)
		if err != nil {
			return nil, errors.Join(err, c.Remove(context.Background()))
		}
		m.advertised = m.listenPeerURL()
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		m.join(m.advertised, c.members)
	}
	return c, nil
}

// Members are the members, in the order of their numbers.
func (c *Cluster) Members() []*Member { return c.members }

// Start starts all members and waits until each is healthy.
func (c *Cluster) Start(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, m := range c.members {
		g.Go(func() error {
			if err := m.Start(ctx); err != nil {
				return err
			}
			return m.AwaitHealthy(ctx)
		})
	}
	return g.Wait()
}

// Remove kills what runs and deletes all data. It goes on after a failure and reports all of them.
func (c *Cluster) Remove(ctx context.Context) error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.Crash(ctx), m.Remove())
	}
	return errors.Join(errs...)
}
