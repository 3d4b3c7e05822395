package contract

import (
	"strconv"
	"strings"
)

// Etcd is the lock backend where it is an etcd of one member. The members of a cluster are numbered; see EtcdMember.
const Etcd Process = "etcd"

const etcdPrefix = "etcd-"

// EtcdMember is the name of the n-th member of an etcd cluster; n counts from 1.
func EtcdMember(n int) Process { return Process(etcdPrefix + strconv.Itoa(n)) }

// EtcdMembers are the names of all members of an etcd that has n of them.
func EtcdMembers(n int) []Process {
	if n == 1 {
		return []Process{Etcd}
	}
	var all []Process
	for i := range n {
		all = append(all, EtcdMember(i+1))
	}
	return all
}

// IsEtcd tells whether p is a member of etcd, the only one or one of a cluster.
func (p Process) IsEtcd() bool {
	rest, ok := strings.CutPrefix(string(p), etcdPrefix)
	if !ok {
		return p == Etcd
	}
	n, err := strconv.Atoi(rest)
	return err == nil && n > 0
}
