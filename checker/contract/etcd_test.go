package contract

import (
	"slices"
	"testing"
)

func TestTheMembersOfEtcdAreNumberedWhereThereAreSeveral(t *testing.T) {
	if got := EtcdMembers(1); !slices.Equal(got, []Process{"etcd"}) {
		t.Errorf("one: %v", got)
	}
	if got := EtcdMembers(3); !slices.Equal(got, []Process{"etcd-1", "etcd-2", "etcd-3"}) {
		t.Errorf("three: %v", got)
	}
	for p, want := range map[Process]bool{"etcd": true, "etcd-1": true, "etcd-12": true, "etcd-": false, "etcd-0": false, "etcd-x": false, "etcdutl": false, LockDB: false} {
		if p.IsEtcd() != want {
			t.Errorf("%s is a member: %v", p, !want)
		}
	}
}
