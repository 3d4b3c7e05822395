package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/nemesis/plan"
)

// printed is the plan that a command line prints.
func printed(t *testing.T, args ...string) (file string, p plan.Plan) {
	t.Helper()
	out, status := fenceproof(t, append([]string{"verify", "--plan-only"}, args...)...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, out)
	}
	p, err := plan.Parse([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, p
}

func onServices(p plan.Plan) (n int) {
	for _, s := range p.Steps {
		if !s.Target.Executor() {
			n++
		}
	}
	return n
}

func TestTheRailDeclinesLosesRepliesAndLagsUnlessAFenceIsOff(t *testing.T) {
	if _, p := printed(t, "--seed", "7"); p.Declines <= 0 || p.LostReplies <= 0 || p.LookupLag <= 0 || onServices(p) < 7 {
		t.Errorf("all fences on: declines %v, lost replies %v, lag %s, %d pauses of services", p.Declines, p.LostReplies, p.LookupLag, onServices(p))
	}
	for _, fencing := range []string{"payment-off", "rail-off", "off"} {
		if _, p := printed(t, "--seed", "7", "--fencing", fencing); p.Declines != 0 || p.LostReplies != 0 || p.LookupLag != 0 || onServices(p) != 0 {
			t.Errorf("%s: declines %v, lost replies %v, lag %s, %d pauses of services", fencing, p.Declines, p.LostReplies, p.LookupLag, onServices(p))
		}
	}
	if _, p := printed(t, "--fencing", "off", "--declines", "0.2"); p.Declines != 0.2 || p.LostReplies != 0 {
		t.Errorf("asked for 0.2 of declines: declines %v, lost replies %v", p.Declines, p.LostReplies)
	}
	if _, p := printed(t, "--nemesis", "none"); onServices(p) != 0 {
		t.Error("nemesis none stops services")
	}
}

func TestAControlInWhichMoreGoesOnThanStoppedExecutorsIsRefused(t *testing.T) {
	file, _ := printed(t, "--seed", "7")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"declines":         {[]string{"--declines", "0.1"}, "--declines 0 --lost-replies 0"},
		"lost replies":     {[]string{"--lost-replies", "0.1"}, "--declines 0 --lost-replies 0"},
		"stopped services": {[]string{"--plan", file, "--declines", "0", "--lost-replies", "0"}, "stops executors only"},
	} {
		t.Run(name, func(t *testing.T) {
			out, status := fenceproof(t, append([]string{"verify", "--fencing", "off", "--control"}, c.args...)...)
			if status != exitUsage || !strings.Contains(out, c.want) {
				t.Errorf("status %d: %s", status, out)
			}
		})
	}
}

func TestARunThatWouldReachTheSettlementWindowIsRefusedInOneSentence(t *testing.T) {
	file, p := printed(t, "--seed", "7", "--nemesis", "none")
	p.Nemesis, p.Together = "pause", 1
	p.Steps = []plan.Step{{Fault: plan.Pause, Target: "rail-proxy", For: plan.Duration(plan.SettlementWindow)}}
	b, err := p.Write()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"by a stop": {"--plan", file}, "by the look-up's lag": {"--lookup-lag", "5s"}} {
		out, status := fenceproof(t, append([]string{"verify"}, args...)...)
		if status != exitUsage || !strings.Contains(out, "reaches the settlement window") {
			t.Errorf("%s: status %d: %s", name, status, out)
		}
	}
	if out, status := fenceproof(t, "verify", "--declines", "1.5"); status != exitUsage || !strings.Contains(out, "declines is 1.5") {
		t.Errorf("status %d: %s", status, out)
	}
}
