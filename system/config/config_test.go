package config

import (
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
