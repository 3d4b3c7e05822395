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

// lockCases are the benchmark's, in the order of the page.
var lockCases = []struct{ name, text string }{
	{"own_keys_1", "1 client"}, {"own_keys_16", "16 clients, a key each"}, {"hot_key_16", "16 clients, one hot key"},
	{"own_keys_64", "64 clients, a key each"}, {"hot_key_64", "64 clients, one hot key"},
}

// lockSides are what is compared. One that is measured on a hot key alone is left out elsewhere.
var lockSides = []struct{ name, text string }{
	{"pg-http", "PostgreSQL: over HTTP"}, {"pg-http-waiting", "PostgreSQL: over HTTP, waiting in the queue"},
	{"pg-store", "PostgreSQL: on the store directly"}, {"c1+advisory", "C1's statements behind the advisory lock"},
	{"c1", "C1's statements alone"}, {"pg_advisory_lock", "`pg_advisory_lock`"},
	{"etcd-http", "etcd: over HTTP"}, {"etcd-http-waiting", "etcd: over HTTP, waiting in the queue"},
	{"etcd-store", "etcd: on the store directly"}, {"etcd-mutex", "etcd's `concurrency.Mutex`"},
}

// judgedClients is the number of clients for which there is a bar.
const judgedClients = "_16"

// measureLocks runs the system's own benchmark: the suite imports nothing of the system.
func measureLocks(ctx context.Context, _ options) (section, error) {
	fmt.Fprintln(os.Stderr, "locks: about three minutes")
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkPairs$", "-benchtime", "1x", "./system/lock/lockserver")
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return section{}, fmt.Errorf("%s: %w: %s%s", strings.Join(cmd.Args, " "), err, text, stderr.String())
	}
	s := section{
		title: "Acquire and release",
		intro: "Pairs per second, and the time from the first try of an acquire until it is granted, by clients with a session each. Over HTTP: the real lock-server process, no link in between. Directly: the store that lock-server uses, in the clients' process. Beside them C1's bare statements through plain pgx, and what else one would take for a lock, without a token: PostgreSQL's own advisory lock, which writes nothing and has no lease, and etcd's own mutex, whose waiters queue. Elsewhere nobody waits, unless it says so: a refused acquire is tried again at once. Medians of 3 alternating rounds of 1 s, with 16 clients of 9 rounds of 0.5 s. PostgreSQL and etcd wait for the disk.",
		head:  []string{"what", "pairs/s", "p50", "p99", "p99.9", "bar", ""},
	}
	for _, c := range lockCases {
		all, err := pairs(string(text), c.name)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, lockRows(c.name, c.text, all)...)
	}
	return s, nil
}

// lockRows are the rows of one case.
func lockRows(name, text string, all map[string]map[string]float64) (rows [][]string) {
	rows = append(rows, []string{"**" + text + "**", "", "", "", "", "", ""})
	for _, side := range lockSides {
		m, ok := all[side.name]
		if !ok {
			continue
		}
		rows = append(rows, []string{side.text, fmt.Sprintf("%.0f", m["pairs/s"]), inMillis(m["p50-us"]), inMillis(m["p99-us"]), inMillis(m["p99.9-us"]), "", ""})
	}
	if !strings.HasSuffix(name, judgedClients) {
		return rows
	}
	for _, backend := range []struct{ name, text string }{{"pg", "PostgreSQL"}, {"etcd", "etcd"}} {
		ratio := all[backend.name+"-http"]["pairs/s"] / all[backend.name+"-store"]["pairs/s"]
		rows = append(rows, []string{backend.text + ": HTTP ÷ directly", fmt.Sprintf("%.2f", ratio), "", "", "", "≥ 0.6", met(ratio >= 0.6)})
	}
	return rows
}

func inMillis(us float64) string { return strconv.FormatFloat(us/1000, 'f', 2, 64) + " ms" }

// pairs reads the metrics of one case, by side and then by their names: value, unit, value, unit …
func pairs(text, name string) (map[string]map[string]float64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.HasPrefix(f[0]+"-", "BenchmarkPairs/"+name+"-") {
			continue
		}
		out := map[string]map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", line, err)
			}
			side, metric, ok := strings.Cut(f[i+1], ":")
			if !ok {
				continue
			}
			if out[side] == nil {
				out[side] = map[string]float64{}
			}
			out[side][metric] = v
		}
		for _, side := range []string{"pg-http", "pg-store", "etcd-http", "etcd-store"} {
			if out[side]["pairs/s"] <= 0 {
				return nil, fmt.Errorf("the benchmark printed no rate of %s in %s: %s", side, name, line)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("the benchmark printed no %s: %s", name, text)
}
