package etcdtest

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// patience bounds every wait of these tests; none takes a tenth of it.
const patience = 20 * time.Second

func TestATestGetsAnEtcdThatTakesWrites(t *testing.T) {
	writes(t, Start(t).URL())
}

func TestATestGetsAClusterWhoseMembersAgree(t *testing.T) {
	members := StartCluster(t, 3)
	first := writes(t, members[0].URL())
	for _, m := range members[1:] {
		if next := writes(t, m.URL()); next <= first {
			t.Errorf("%s wrote at revision %d, after %d: it is a cluster of its own", m.Name(), next, first)
		} else {
			first = next
		}
	}
}

// writes puts a key and gives the revision of that.
func writes(t *testing.T, url string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Put(ctx, "account", "7")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}
