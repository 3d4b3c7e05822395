package local

import (
	"cmp"
	"slices"
	"sync"

	"fenceproof/deploy/process"
)

// Death is the end of a process that nobody asked to end.
type Death struct {
	Name   string
	Status string // how it ended: "exit status 2", "signal: killed"
}

// mortal is a process whose end may be noticed. While somebody starts or ends it, nobody can say how it is.
type mortal struct {
	name  string
	busy  *sync.Mutex
	proc  func() process.Process
	asked *bool // it was asked to end, and was not started again since; under busy
}

// Died lists the processes of the system that have ended by themselves and were not started again, by name. What Kill or
// StopServices has ended is none of them.
func (s *Stack) Died() (all []Death) {
	for _, m := range s.mortals() {
		if d, died := m.died(); died {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b Death) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// mortals are the processes of the system, clients aside.
func (s *Stack) mortals() (all []mortal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.services {
		if !p.client {
			all = append(all, mortal{name, &p.mu, func() process.Process { return p.proc }, &p.asked})
		}
	}
	for name, d := range s.databases {
		all = append(all, mortal{name, &d.mu, d.Instance.Process, &d.asked})
	}
	for _, m := range s.members {
		all = append(all, mortal{m.Name(), &m.mu, m.Member.Process, &m.asked})
	}
	return all
}

func (m mortal) died() (Death, bool) {
	if !m.busy.TryLock() {
		return Death{}, false
	}
	defer m.busy.Unlock()
	p := m.proc()
	if p == nil || *m.asked {
		return Death{}, false
	}
	select {
	case <-p.Done():
		return Death{m.name, p.Status()}, true
	default:
		return Death{}, false
	}
}
