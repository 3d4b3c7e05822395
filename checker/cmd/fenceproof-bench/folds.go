package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/invariant"
	"fenceproof/checker/synthetic"
	"fenceproof/checker/verdict"
)

// readCommand makes the program read a history as a process of its own, so that its memory can be told.
const readCommand = "read-history"

// The ways to read one.
const (
	onlyDecode = "decode"
	judgeAll   = "judge"
)

// reading is what one such process measured.
type reading struct {
	Seconds float64
	CPU     float64 // seconds, user and system
	PeakMiB float64
	Events  int64
	Folds   int
	Found   int64
}

// readHistory is that process: it prints a reading.
func readHistory(mode, dir string) error {
	if path := os.Getenv("CPUPROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	begin := time.Now()
	r, err := history.Open(dir)
	if err != nil {
		return fmt.Errorf("open the history: %w", err)
	}
	defer r.Close()
	out := reading{}
	observe, conclude := func(*history.Event) {}, func() {}
	if mode == judgeAll {
		var config struct {
			Settings verdict.Settings `json:"settings"`
		}
		if err := json.Unmarshal(r.Header().Config, &config); err != nil {
			return fmt.Errorf("read the settings of the run: %w", err)
		}
		j := invariant.NewJudge(config.Settings)
		observe = j.Observe
		conclude = func() { out.Folds, out.Found = len(j.Conclude(r.Gaps())), j.Found() }
	}
	var e history.Event
	for {
		if err = r.Next(&e); err != nil {
			break
		}
		out.Events++
		observe(&e)
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the history: %w", err)
	}
	conclude()
	out.Seconds = time.Since(begin).Seconds()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return fmt.Errorf("read the time used: %w", err)
	}
	out.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	if out.PeakMiB, err = peak(); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return fmt.Errorf("print the reading: %w", err)
	}
	return nil
}

// peak is the most memory that this process has had resident, in MiB. (The kernel's ru_maxrss would not do: a process
// inherits it from whoever started it.)
func peak() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read the peak memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				return 0, fmt.Errorf("read the peak memory: %w", err)
			}
			return kib / 1024, nil
		}
	}
	return 0, errors.New("read the peak memory: the kernel does not tell")
}

func measureFolds(ctx context.Context, o options) (section, error) {
	dir := filepath.Join(o.work, "history")
	fmt.Fprintf(os.Stderr, "folds: making a history of %d events\n", o.events)
	made, err := synthetic.Write(dir, synthetic.Options{Seed: 1, Events: o.events})
	if err != nil {
		return section{}, fmt.Errorf("make a history: %w", err)
	}
	defer os.RemoveAll(dir)
	var decode, judge, decodeCPU, judgeCPU, peaks []float64
	folds := 0
	for n := range o.rounds {
		fmt.Fprintf(os.Stderr, "folds: round %d of %d\n", n+1, o.rounds)
		d, err := readIn(ctx, onlyDecode, dir)
		if err != nil {
			return section{}, err
		}
		j, err := readIn(ctx, judgeAll, dir)
		if err != nil {
			return section{}, err
		}
		if j.Found > 0 || j.Events != made.Events || d.Events != made.Events {
			return section{}, fmt.Errorf("the folds found %d violations in a healthy history of %d events, of which they saw %d", j.Found, made.Events, j.Events)
		}
		decode, judge = append(decode, d.Seconds), append(judge, j.Seconds)
		decodeCPU, judgeCPU = append(decodeCPU, d.CPU), append(judgeCPU, j.CPU)
		peaks, folds = append(peaks, j.PeakMiB), j.Folds
	}
	ratio := median(decode) / median(judge)
	return section{
		title: "Folds over a stored history",
		intro: fmt.Sprintf("%s events of %d bytes, made by `checker/synthetic` with seed 1 (%d payouts, %d pauses); all %d invariants, from the files to the verdicts. Each reading is a process of its own; medians of %d alternating rounds.",
			thousands(made.Events), made.Bytes/made.Events, sum(made.Payouts), made.Pauses, folds, o.rounds),
		rows: [][]string{
			{"folds, files to verdicts", seconds(median(judge)), "< 5 s", met(median(judge) < 5)},
			{"peak memory", fmt.Sprintf("%.0f MiB", median(peaks)), "< 300 MB", met(median(peaks)*1.048576 < 300)},
			{"only decoding the files", seconds(median(decode)), "", ""},
			{"folds ÷ only decoding, as rates", fmt.Sprintf("%.2f", ratio), "≥ 0.5", met(ratio >= 0.5)},
			{"processor time, folds and only decoding", seconds(median(judgeCPU)) + " and " + seconds(median(decodeCPU)), "", ""},
		},
	}, nil
}

func readIn(ctx context.Context, mode, dir string) (out reading, err error) {
	exe, err := os.Executable()
	if err != nil {
		return out, fmt.Errorf("find this program: %w", err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, exe, readCommand, mode, dir)
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("read the history (%s): %w: %s", mode, err, stderr.String())
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("read the history (%s): %w", mode, err)
	}
	return out, nil
}
