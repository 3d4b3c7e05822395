// Package cmd_test asks of every process what all of them promise alike.
package cmd_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"fenceproof/system/config"
)

// processes are all binaries with their configurations, and a slip of the keyboard for each.
var processes = map[string]struct {
	config         any
	mistyped, want string
}{
	"lock-server":      {config.LockServer{}, "LOCK_MAXWAITER", "LOCK_MAXWAITERS"},
	"payment-resource": {config.PaymentResource{}, "PAYMENT_FENCING_ENABLD", "PAYMENT_FENCING_ENABLED"},
	"rail-proxy":       {config.RailProxy{}, "RAIL_PROXY_TIMOUT", "RAIL_PROXY_TIMEOUT"},
	"rail-stub":        {config.RailStub{}, "RAIL_STUB_LATENCY_MS", "RAIL_STUB_LATENCYMS"},
	"payout-executor":  {config.Executor{}, "EXECUTOR_PREPAR", "EXECUTOR_PREPARE"},
	"lockctl":          {config.LockCtl{}, "LOCK_CTL_SERVER_URL", "LOCK_CTL_SERVERURL"},
	"reconciler":       {config.Reconciler{}, "RECONCILER_SETTLEMENT_WINDOW", "RECONCILER_SETTLEMENTWINDOW"},
}

// build makes every binary of this folder.
func build(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "./...").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// command is a process that ends by itself, or is ended.
func command(t *testing.T, bin, name string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	c.Env, c.Dir = env, t.TempDir()
	return c
}

func TestEveryProcessPrintsAllItsVariablesWithTheirDefaultsWhenAskedForHelp(t *testing.T) {
	bin := build(t)
	for name, p := range processes {
		for _, flag := range []string{"-h", "--help"} {
			out, err := command(t, bin, name, nil, flag).Output()
			if err != nil {
				t.Errorf("%s %s: %v", name, flag, err)
			}
			lines := strings.Split(string(out), "\n")
			c := reflect.TypeOf(p.config)
			for i := range c.NumField() {
				tag := c.Field(i).Tag
				if !hasLine(lines, tag.Get("env"), tag.Get("envDefault")) {
					t.Errorf("%s %s has no line with %s and its default %q:\n%s", name, flag, tag.Get("env"), tag.Get("envDefault"), out)
				}
			}
		}
	}
}

func hasLine(lines []string, variable, value string) bool {
	for _, l := range lines {
		if f := strings.Fields(l); len(f) > 1 && f[0] == variable && (value == "" || f[1] == value) {
			return true
		}
	}
	return false
}

func TestEveryProcessStopsAtAMistypedVariableAndNamesTheNearestOne(t *testing.T) {
	bin := build(t)
	for name, p := range processes {
		out, err := command(t, bin, name, []string{p.mistyped + "=1"}).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), p.mistyped+" is no variable of this system; did you mean "+p.want+"?") {
			t.Errorf("%s with %s: %v\n%s", name, p.mistyped, err, out)
		}
	}
}

func TestNoProcessIsForgottenHere(t *testing.T) {
	built, err := filepath.Glob(filepath.Join(build(t), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range built {
		if _, ok := processes[filepath.Base(b)]; !ok {
			t.Errorf("%s is built and not asked", filepath.Base(b))
		}
	}
}
