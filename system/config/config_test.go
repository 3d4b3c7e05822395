package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryWrongVariableIsNamed(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    []string
	}{
		{[]string{"RAIL_PROXY_TIMEOUT=soon", "RAIL_PROXY_FENCING_ENABLED=perhaps"}, []string{"RAIL_PROXY_TIMEOUT", "RAIL_PROXY_FENCING_ENABLED"}},
		{[]string{"RAIL_PROXY_TIMEOUT=0s"}, []string{"RAIL_PROXY_TIMEOUT", "no usable duration"}},
		{[]string{"RAIL_PROXY_FENCING_ENABLD=false"}, []string{"RAIL_PROXY_FENCING_ENABLD", "did you mean RAIL_PROXY_FENCING_ENABLED?"}},
	} {
		_, err := Parse[RailProxy](c.environ)
		if err == nil {
			t.Errorf("%v was accepted", c.environ)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: the error does not say %q: %v", c.environ, w, err)
			}
		}
	}
}

func TestTheReconcilersDefaultsAreThoseOfTheContractAndItsNameIsBounded(t *testing.T) {
	c, err := Parse[Reconciler](nil)
	if err != nil || c.Interval != 10*time.Second || c.SettlementWindow != 5*time.Minute || c.OwnerID != "reconciler" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, v := range []string{"RECONCILER_OWNERID=" + strings.Repeat("x", 65), "RECONCILER_SETTLEMENTWINDOW=0s", "RECONCILER_RAILSTUBURL=rail", "RECONCILER_WINDOW=5m"} {
		name, _, _ := strings.Cut(v, "=")
		if _, err := Parse[Reconciler]([]string{v}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", v, err)
		}
	}
}

func TestAStepThatNoLeaseCoversStopsTheProcess(t *testing.T) {
	if _, err := Parse[Executor]([]string{"EXECUTOR_OWNERID=executor-1"}); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, v := range []string{"LOCK_SESSION_TTL=14s", "LOCK_DEFAULT_TTL=14s", "EXECUTOR_PREPARE=501ms", "EXECUTOR_STEPTIMEOUT=10500ms", "LOCK_CLIENT_SAFETYMARGIN=0.4"} {
		if _, err := Parse[Executor]([]string{"EXECUTOR_OWNERID=executor-1", v}); err == nil || !strings.Contains(err.Error(), "EXECUTOR_STEPTIMEOUT") {
			t.Errorf("%s: %v", v, err)
		}
	}
	if _, err := Parse[Reconciler]([]string{"RECONCILER_STEPTIMEOUT=11s"}); err == nil || !strings.Contains(err.Error(), "RECONCILER_STEPTIMEOUT") {
		t.Errorf("a reconciler with long steps: %v", err)
	}
}

func TestTheRailIsNotCalledOverTLS(t *testing.T) {
	if _, err := Parse[RailProxy]([]string{"RAIL_PROXY_STUBURL=https://127.0.0.1:8084"}); err == nil || !strings.Contains(err.Error(), "RAIL_PROXY_STUBURL") {
		t.Errorf("https: %v", err)
	}
}

func TestTheEtcdBackendNeedsItsMembersAndLeasesOfWholeSeconds(t *testing.T) {
	etcd := []string{"LOCK_BACKEND=etcd"}
	c, err := Parse[LockServer](append(etcd, "ETCD_ENDPOINTS=http://127.0.0.1:2379,http://[::1]:2380"))
	if err != nil || !slices.Equal(c.EtcdEndpoints, []string{"http://127.0.0.1:2379", "http://[::1]:2380"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Parse[LockServer]([]string{"LOCK_DEFAULT_TTL=1500ms"}); err != nil {
		t.Errorf("half a second is no matter on pg: %v", err)
	}
	members := "ETCD_ENDPOINTS=http://127.0.0.1:2379"
	for want, environ := range map[string][]string{
		"ETCD_ENDPOINTS: LOCK_BACKEND=etcd needs":                nil,
		`ETCD_ENDPOINTS: "127.0.0.1:2379" is no member`:          {"ETCD_ENDPOINTS=127.0.0.1:2379"},
		`ETCD_ENDPOINTS: "https://127.0.0.1:2379" is no member`:  {"ETCD_ENDPOINTS=https://127.0.0.1:2379"},
		`ETCD_ENDPOINTS: "http://127.0.0.1" is no member`:        {"ETCD_ENDPOINTS=http://127.0.0.1"},
		`ETCD_ENDPOINTS: "http://127.0.0.1:2379/" is no member`:  {"ETCD_ENDPOINTS=http://127.0.0.1:2379/"},
		`ETCD_ENDPOINTS: "http://me@127.0.0.1:1" is no member`:   {"ETCD_ENDPOINTS=http://me@127.0.0.1:1"},
		`ETCD_ENDPOINTS: "" is no member`:                        {members + ","},
		`ETCD_ENDPOINTS: " http://127.0.0.1:2380" is no member`:  {members + ", http://127.0.0.1:2380"},
		"LOCK_DEFAULT_TTL: etcd's leases last whole seconds":     {members, "LOCK_DEFAULT_TTL=1500ms"},
		"LOCK_SESSION_TTL: etcd's leases last whole seconds":     {members, "LOCK_SESSION_TTL=2001ms"},
		`LOCK_BACKEND: "etcdd" is no lock backend`:               {members, "LOCK_BACKEND=etcdd"},
		`ETCD_ENDPOINTS: "http://127.0.0.1:a" is no member`:      {"ETCD_ENDPOINTS=http://127.0.0.1:a"},
		`ETCD_ENDPOINTS: "http://:2379" is no member`:            {"ETCD_ENDPOINTS=http://:2379"},
		`ETCD_ENDPOINTS: "http://127.0.0.1:2379?a" is no member`: {"ETCD_ENDPOINTS=http://127.0.0.1:2379?a"},
	} {
		if _, err := Parse[LockServer](append(slices.Clone(etcd), environ...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", environ, err, want)
		}
	}
}
