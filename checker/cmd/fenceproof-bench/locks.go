package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// measureLocks runs the system's own benchmark: the suite imports nothing of the system.
func measureLocks(ctx context.Context, _ options) (section, error) {
	fmt.Fprintln(os.Stderr, "locks: about two minutes")
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkPairs$", "-benchtime", "1x", "./system/lock/lockserver")
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return section{}, fmt.Errorf("%s: %w: %s%s", strings.Join(cmd.Args, " "), err, text, stderr.String())
	}
	s := section{
		title: "Acquire and release",
		intro: "Pairs per second by 16 clients with a session each. Over HTTP: the real lock-server process, no link in between. The same directly: the store that lock-server uses, in the clients' process; and C1's bare statements through plain pgx. On the hot key nobody waits: a refused acquire is tried again at once, and pairs are counted. Medians of 5 alternating rounds of 2 s.",
	}
	for _, name := range []string{"16_keys", "one_hot_key"} {
		rate, err := pairs(string(text), name)
		if err != nil {
			return s, err
		}
		what := strings.ReplaceAll(name, "_", " ")
		for _, side := range []struct{ key, text string }{{"http", "over HTTP"}, {"store", "on the store directly"},
			{"c1+advisory", "C1's statements behind the advisory lock"}, {"c1", "C1's statements alone"}} {
			s.rows = append(s.rows, []string{what + ": " + side.text, fmt.Sprintf("%.0f /s", rate[side.key]), "", ""})
		}
		ratio := rate["http"] / rate["store"]
		s.rows = append(s.rows, []string{what + ": HTTP ÷ directly", fmt.Sprintf("%.2f", ratio), "≥ 0.6", met(ratio >= 0.6)})
	}
	return s, nil
}

// pairs reads the metrics of one benchmark: value, unit, value, unit …
func pairs(text, name string) (map[string]float64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.HasPrefix(f[0], "BenchmarkPairs/"+name) {
			continue
		}
		out := map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", line, err)
			}
			if side, ok := strings.CutSuffix(f[i+1], "-pairs/s"); ok {
				out[side] = v
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("the benchmark printed no %s: %s", name, text)
}
