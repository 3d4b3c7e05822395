package local

import "fmt"

// OpenClient opens a hop of its own for a client that is no process of the stack, to one of its services, and returns
// where the client connects to. It closes with the stack.
func (s *Stack) OpenClient(name, server string) (*Link, error) {
	s.mu.Lock()
	p, ok := s.services[server]
	_, taken := s.links[LinkName(name, server)]
	s.mu.Unlock()
	if !ok || p.public == nil {
		return nil, fmt.Errorf("open a link from %s: %q serves nobody", name, server)
	}
	if taken {
		return nil, fmt.Errorf("open a link from %s to %s: there is one already", name, server)
	}
	if err := s.openLink(name, server, s.publicAddress(server), s.config.Interpose); err != nil {
		return nil, err
	}
	return s.Link(LinkName(name, server))
}
