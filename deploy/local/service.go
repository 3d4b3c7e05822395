package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"fenceproof/deploy/port"
	"fenceproof/deploy/postgres"
)

// variables is a process's environment by name.
type variables map[string]string

// set puts more variables in, over those that are there.
func (v variables) set(more map[string]string) { maps.Copy(v, more) }

// list is the form that a process is started with, sorted.
func (v variables) list() []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(v)) {
		out = append(out, k+"="+v[k])
	}
	return out
}

// environment makes the variables of a service from its ports and links, and the configured ones over them.
type environment func(s *service) variables

// datasource is the variable with each program's database.
var datasource = map[string]string{
	LockServer: "LOCK_DATASOURCE_URL", PaymentResource: "PAYMENTS_DATASOURCE_URL", RailProxy: "PAYMENTS_DATASOURCE_URL",
}

// baseVariables are what every process gets.
func baseVariables() variables {
	return variables{"PATH": "/usr/local/bin:/usr/bin:/bin", "TZ": "UTC"}
}

// variables starts with what every process gets, and ends with what the configuration says of this one.
func (s *Stack) variables(p *service, own variables) variables {
	v := baseVariables()
	v.set(own)
	if strings.HasPrefix(p.name, executorGroup+"-") {
		v.set(s.config.Env[executorGroup])
	}
	v.set(s.config.Env[p.name])
	return v
}

// listening are the variables of a service's two listeners; before there are ports, as for a migration, none.
func (p *service) listening(prefix string) variables {
	v := variables{}
	if p.public != nil {
		v[prefix+"_LISTEN"] = p.public.Address()
	}
	if p.admin != nil {
		v[prefix+"_ADMINLISTEN"] = p.admin.Address()
	}
	return v
}

func (s *Stack) lockServerEnv(p *service) variables {
	v := p.listening("LOCK_SERVER")
	if s.config.Backend == BackendEtcd {
		v["LOCK_BACKEND"], v["ETCD_ENDPOINTS"] = BackendEtcd, s.etcdEndpoints()
		return s.variables(p, v)
	}
	v[datasource[LockServer]] = s.databaseURL(LockServer, LockDB)
	return s.variables(p, v)
}

func (s *Stack) paymentResourceEnv(p *service) variables {
	v := p.listening("PAYMENT_RESOURCE")
	v[datasource[PaymentResource]] = s.databaseURL(PaymentResource, PayDB)
	return s.variables(p, v)
}

func (s *Stack) railProxyEnv(p *service) variables {
	v := p.listening("RAIL_PROXY")
	v[datasource[RailProxy]] = s.databaseURL(RailProxy, PayDB)
	v["RAIL_PROXY_STUBURL"] = s.httpURL(RailProxy, RailStub)
	return s.variables(p, v)
}

func (s *Stack) railStubEnv(p *service) variables {
	v := p.listening("RAIL_STUB")
	v["RAIL_STUB_JOURNAL"] = s.JournalPath()
	return s.variables(p, v)
}

func (s *Stack) executorEnv(p *service) variables {
	v := p.listening("EXECUTOR")
	v["EXECUTOR_OWNERID"] = p.name
	v["EXECUTOR_LOCKSERVERURL"] = s.httpURL(p.name, LockServer)
	v["EXECUTOR_PAYMENTRESOURCEURL"] = s.httpURL(p.name, PaymentResource)
	v["EXECUTOR_RAILPROXYURL"] = s.httpURL(p.name, RailProxy)
	return s.variables(p, v)
}

func (s *Stack) reconcilerEnv(p *service) variables {
	v := p.listening("RECONCILER")
	v["RECONCILER_OWNERID"] = p.name
	v["RECONCILER_LOCKSERVERURL"] = s.httpURL(p.name, LockServer)
	v["RECONCILER_PAYMENTRESOURCEURL"] = s.httpURL(p.name, PaymentResource)
	v["RECONCILER_RAILSTUBURL"] = s.httpURL(p.name, RailStub)
	return s.variables(p, v)
}

// databaseURL and httpURL are the addresses of a server as one client has them, through its own link. The links are
// open by the time that the client starts.
func (s *Stack) databaseURL(from, to string) string {
	return postgres.URL(s.linkAddress(from, to), owners[to], to)
}

func (s *Stack) httpURL(from, to string) string { return "http://" + s.linkAddress(from, to) }

func (s *Stack) linkAddress(from, to string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[LinkName(from, to)].Address()
}

// publicAddress is where a service that has started listens.
func (s *Stack) publicAddress(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.services[name].public.Address()
}

func (s *Stack) openLink(from, to, upstream string, interpose Interposer) error {
	l, err := newLink(from, to, upstream, interpose)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[l.Name()] = l
	return nil
}

// openService reserves ports for a service and starts it. Its links must be open.
func (s *Stack) openService(ctx context.Context, name, program string, public bool, env environment) error {
	p := &service{
		name: name, program: filepath.Join(s.config.BinDir, program), log: s.LogPath(name), launcher: s.warden,
		environ: func(p *service) []string { return env(p).list() },
	}
	var err error
	if p.admin, err = port.Reserve(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if public {
		if p.public, err = port.Reserve(); err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", name, err), p.admin.Release())
		}
	}
	s.mu.Lock()
	s.services[name] = p
	s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start(ctx)
}
