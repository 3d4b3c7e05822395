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
