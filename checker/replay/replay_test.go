package replay

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// example is the plan of a run of that workload.
func example(t *testing.T, workload string) plan.Plan {
	t.Helper()
	p := plan.Plan{Workload: workload, Backend: plan.BackendEtcd, EtcdMembers: 3, Nemesis: "pause,kill", Seed: 1<<63 + 1, Drive: plan.Duration(20 * time.Second)}
	if workload == plan.LockWorkload {
		l := run.DefaultLocks()
		p.Locks = &l
	} else {
		p.Executors, p.Accounts, p.Rate, p.Prepare = 4, 5, 6.5, plan.Duration(50*time.Millisecond)
	}
	p, err := plan.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// recorded leaves a run's folder that holds nothing but the header of its history.
func recorded(t *testing.T, p plan.Plan, config string) (dir string) {
	t.Helper()
	text, err := p.Write()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	rec, err := history.Create(run.HistoryDir(dir), history.Header{RunID: "r", Seed: p.Seed, Plan: text, Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestARunIsDoneAgainWithItsPlanItsFencingAndItsExpectation(t *testing.T) {
	expect := &verdict.Expectation{Must: []string{"INV-02", "INV-05"}, May: []string{"INV-03"}}
	for name, c := range map[string]struct {
		workload, config string
		fencing          run.Fencing
		expect           *verdict.Expectation
	}{
		"with all fences": {plan.PayoutWorkload, `{"settings": {"fencing": "on", "seed": "1"}}`, run.FencingOn, nil},
		"a control":       {plan.PayoutWorkload, `{"settings": {"fencing": "rail-off", "seed": "1"}, "expect": {"must": ["INV-02", "INV-05"], "may": ["INV-03"]}}`, run.FencingRailOff, expect},
		"without payouts": {plan.LockWorkload, `{"settings": {"seed": "1"}}`, run.FencingOn, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := example(t, c.workload)
			got, err := Of(recorded(t, p, c.config))
			if err != nil {
				t.Fatal(err)
			}
			if want := (run.Config{Plan: p, Fencing: c.fencing, Expect: c.expect}); !reflect.DeepEqual(got, want) {
				t.Errorf("it is told\n%+v\nwant\n%+v", got, want)
			}
		})
	}
}

func TestAHistoryThatDoesNotSayWhatTheRunWasToldIsRefused(t *testing.T) {
	p := example(t, plan.PayoutWorkload)
	wrong, short := p, p
	wrong.Backend, short.Funds = "redis", 9_999
	for says, dir := range map[string]string{
		`header has no "config"`:       recorded(t, p, ""),
		`fencing "of"; did you mean`:   recorded(t, p, `{"settings": {"fencing": "of", "seed": "1"}}`), // it would have switched the fences off
		`backend "redis" is not known`: recorded(t, wrong, `{"settings": {"seed": "1"}}`),
		"fencing is rail-off: want of": recorded(t, short, `{"settings": {"fencing": "rail-off", "seed": "1"}}`),
		"no such file":                 filepath.Join(t.TempDir(), "nowhere"),
	} {
		if _, err := Of(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %s", err, says)
		}
	}
}
