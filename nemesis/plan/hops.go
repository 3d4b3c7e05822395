package plan

import (
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
)

// Anything stands in a target of a fault of links for whatever is there: "executor-2→*" is every link that executor-2
// opens.
const Anything = "*"

// AnyMember stands in such a target for every member of etcd.
const AnyMember = "etcd-*"

// Route is a target of a fault of links: who opens the links and who serves them, or both ways.
type Route struct {
	From, To contract.Process
	BothWays bool // written ↔: those that the other side opens, too
}

// Route reads t as the target of a fault of links. "->" and "<->" stand for the arrows.
func (t Target) Route() (Route, error) {
	for _, arrow := range []struct {
		sign     string
		bothWays bool
	}{{"↔", true}, {"<->", true}, {"→", false}, {"->", false}} {
		if from, to, ok := strings.Cut(string(t), arrow.sign); ok && from != "" && to != "" {
			return Route{contract.Process(from), contract.Process(to), arrow.bothWays}, nil
		}
	}
	return Route{}, fmt.Errorf("%q is no link: write it as client→server, or both ways as etcd-1↔etcd-2; * stands for any", t)
}

// Target is r as plans write it.
func (r Route) Target() Target {
	if r.BothWays {
		return Target(string(r.From) + "↔" + string(r.To))
	}
	return Target(contract.Link{From: r.From, To: r.To}.String())
}

// names tells whether one of r's ends is written as pattern.
func (r Route) names(pattern Target) bool {
	return r.From == contract.Process(pattern) || r.To == contract.Process(pattern)
}

// Resolved is r with somebody in the place of Holder or EtcdLeader.
func (r Route) Resolved(pattern Target, p contract.Process) Route {
	if r.From == contract.Process(pattern) {
		r.From = p
	}
	if r.To == contract.Process(pattern) {
		r.To = p
	}
	return r
}

// Hops are the links of p's stack that r means. While it still names Holder or EtcdLeader, these are all that it may come
// to mean.
func (p Plan) Hops(r Route) []contract.Link {
	return slices.DeleteFunc(p.stackLinks(), func(l contract.Link) bool {
		return !(means(r.From, l.From) && means(r.To, l.To) || r.BothWays && means(r.From, l.To) && means(r.To, l.From))
	})
}

// means tells whether p is one of those for whom pattern stands.
func means(pattern, p contract.Process) bool {
	switch pattern {
	case Anything, p:
		return true
	case AnyExecutor:
		return p.IsExecutor()
	case AnyLockClient:
		return p.IsLockClient()
	case AnyMember, contract.Process(EtcdLeader):
		return p.IsEtcd()
	case contract.Process(Holder):
		return p.IsExecutor() || p.IsLockClient()
	}
	return false
}

// stackLinks are all links of p's stack while it is driven.
func (p Plan) stackLinks() (all []contract.Link) {
	add := func(from contract.Process, to ...contract.Process) {
		for _, server := range to {
			all = append(all, contract.Link{From: from, To: server})
		}
	}
	if !p.forLocks() {
		for n := 1; n <= min(p.Executors, MaxExecutors); n++ {
			add(contract.Executor(n), contract.LockServer, contract.PaymentResource, contract.RailProxy)
		}
		add(contract.Reconciler, contract.LockServer, contract.PaymentResource, contract.RailStub)
		add(contract.PaymentResource, contract.PayDB)
		add(contract.RailProxy, contract.RailStub, contract.PayDB)
	}
	if p.Locks != nil {
		for n := 1; n <= min(p.Locks.Clients, MaxLockClients); n++ {
			add(contract.LockClient(n), contract.LockServer)
		}
		if p.Locks.Revokes > 0 {
			add(contract.LockOperator, contract.LockServer)
		}
	}
	keepers := p.lockBackend()
	add(contract.LockServer, keepers...)
	for _, m := range keepers {
		for _, other := range keepers {
			if other != m {
				add(m, other)
			}
		}
	}
	return all
}

// routes lists the targets that a fault of links may have, for whoever mistyped one.
func (p Plan) routes() (all []Target) {
	add := func(r Route) {
		if t := r.Target(); !slices.Contains(all, t) && len(p.Hops(r)) > 0 {
			all = append(all, t)
		}
	}
	for _, l := range p.stackLinks() {
		for _, from := range []contract.Process{l.From, Anything, contract.Process(Holder), AnyExecutor, AnyLockClient, AnyMember, contract.Process(EtcdLeader)} {
			for _, to := range []contract.Process{l.To, Anything, AnyMember} {
				add(Route{From: from, To: to})
			}
		}
		if l.From.IsEtcd() {
			for _, from := range []contract.Process{l.From, contract.Process(EtcdLeader)} {
				for _, to := range []contract.Process{l.To, AnyMember} {
					add(Route{from, to, true})
				}
			}
		}
	}
	return all
}

// hits are the processes or links that a step by time has in its hands.
func (p Plan) hits(s Step) []Target {
	if s.Fault.OnStore() {
		return named(p.Held(s.Fault))
	}
	if s.Fault.OnStandby() {
		return named(HeldByFailover())
	}
	r, err := s.Target.Route()
	if !s.Fault.OnLink() || err != nil {
		return []Target{s.Target}
	}
	var all []Target
	for _, l := range p.Hops(r) {
		all = append(all, Target(l.String()))
	}
	return all
}
