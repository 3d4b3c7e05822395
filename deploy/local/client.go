package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Client is a program that calls one service of the stack and is no part of the system.
type Client struct {
	Name    string // also its log's; no process of the stack may have it
	Program string // the path of its executable
	Server  string // the service that it calls
	// Args makes its arguments from the address where the service is reached, host and port.
	Args func(server string) []string
}

// StartClient starts a client as a process of the stack, so that it can be stopped like any other, with a link of its
// own to its server. It is no part of what StopServices ends in its turn: see StopClients.
func (s *Stack) StartClient(ctx context.Context, c Client) error {
	s.mu.Lock()
	server, ok := s.services[c.Server]
	_, taken := s.services[c.Name]
	_, linked := s.links[LinkName(c.Name, c.Server)]
	s.mu.Unlock()
	switch {
	case !ok || server.public == nil:
		return fmt.Errorf("start client %s: %q serves nobody", c.Name, c.Server)
	case taken || linked:
		return fmt.Errorf("start client %s: there is one already", c.Name)
	}
	if err := s.openLink(c.Name, c.Server, server.public.Address(), s.config.Interpose); err != nil {
		return err
	}
	p := &service{
		name: c.Name, program: c.Program, log: s.LogPath(c.Name), launcher: s.warden, client: true,
		args: c.Args(s.linkAddress(c.Name, c.Server)), environ: func(*service) []string { return baseVariables().list() },
	}
	s.mu.Lock()
	s.services[c.Name] = p
	s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start(ctx)
}

// OpenLink opens a link to a service for somebody who is no process of the stack. It is closed with the stack.
func (s *Stack) OpenLink(from, server string) (*Link, error) {
	s.mu.Lock()
	p, ok := s.services[server]
	_, linked := s.links[LinkName(from, server)]
	s.mu.Unlock()
	switch {
	case !ok || p.public == nil:
		return nil, fmt.Errorf("open a link from %s: %q serves nobody", from, server)
	case linked:
		return nil, fmt.Errorf("open a link from %s: there is one already", from)
	}
	if err := s.openLink(from, server, p.public.Address(), s.config.Interpose); err != nil {
		return nil, err
	}
	return s.Link(LinkName(from, server))
}

// StopClients asks the clients to end and waits for it. One that did not end in order is an error with the end of its
// log.
func (s *Stack) StopClients(ctx context.Context) error {
	errs := s.stopGroup(ctx, func(p *service) bool { return p.client })
	for _, p := range s.clients() {
		errs = append(errs, p.failure())
	}
	return errors.Join(errs...)
}

// AwaitClient waits for a client to end by itself; an error says that it did not, or not in order.
func (s *Stack) AwaitClient(ctx context.Context, name string) error {
	for _, p := range s.clients() {
		if p.name == name {
			return p.await(ctx)
		}
	}
	return fmt.Errorf("wait for client %s: there is none", name)
}

// Ended names the clients that have ended, but for those that were killed and are to be started again.
func (s *Stack) Ended() (names []string) {
	for _, p := range s.clients() {
		if p.hasEnded() {
			names = append(names, p.name)
		}
	}
	return names
}

// clients are the clients' processes, by name.
func (s *Stack) clients() (all []*service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.services {
		if p.client {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *service) int { return strings.Compare(a.name, b.name) })
	return all
}

// await waits until the process has ended.
func (s *service) await(ctx context.Context) error {
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("wait for %s: it was never started", s.name)
	}
	select {
	case <-p.Done():
		return s.failure()
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w", s.name, context.Cause(ctx))
	}
}

// hasEnded tells whether the process has ended, and not because it was killed.
func (s *service) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.killed && !s.running()
}

// tooEarly is the end of a process that was asked to end before it had begun to listen for that, and so before it had
// done anything.
const tooEarly = "signal: terminated"

// failure says how a process has ended that did not end in order.
func (s *service) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.running() || s.proc.Status() == "exit status 0" || s.asked && s.proc.Status() == tooEarly {
		return nil
	}
	return fmt.Errorf("%s has ended: %s; the end of %s:\n%s", s.name, s.proc.Status(), s.log, lastLines(logSince(s.log, 0)))
}
