package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// EtcdLeader is the name of the member of etcd that leads now. An error says that none of those that answer does.
func (s *Stack) EtcdLeader(ctx context.Context) (string, error) {
	s.mu.Lock()
	members := slices.Clone(s.members)
	s.mu.Unlock()
	if len(members) == 0 {
		return "", fmt.Errorf("ask who leads: the lock backend is %s", BackendPG)
	}
	type answer struct {
		name string
		err  error
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // whoever has not answered yet is not waited for
	answers := make(chan answer, len(members))
	for _, m := range members {
		asked.Go(func() {
			leads, err := m.Leads(ctx)
			if !leads {
				answers <- answer{err: err}
				return
			}
			answers <- answer{name: m.Name()}
		})
	}
	var errs []error
	for range members {
		a := <-answers
		if a.name != "" {
			return a.name, nil
		}
		errs = append(errs, a.err)
	}
	return "", fmt.Errorf("none of %d members of etcd says that it leads: %w", len(members), errors.Join(append(errs, context.Cause(ctx))...))
}
