// Package soak runs nemeses, backends and workloads round after round, each round under another seed, so that a soak that
// is cut off has covered everything equally. Each run is a process of its own; what came of it is a line in a file, and
// the summary can be made of these lines at any time.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"fenceproof/checker/run"
	"fenceproof/checker/verdict"

	"golang.org/x/sync/errgroup"
)

// ErrHarness says that the harness itself failed: what the soak was to show is not known.
var ErrHarness = errors.New("the harness itself failed")

// Options say where and how a soak runs.
type Options struct {
	Settings
	Into string // the soak's folder; one that is there is continued
	Exe  string // this program, which does the runs
	// Programs are the names of those beside Exe that the runs are made with: the services, and the operator's tool.
	Programs []string
	Command  string    // the command that does the same again
	Check    Check     // what verify takes
	Out      io.Writer // a line per run
}

// soak is a soak while it is going on.
type soak struct {
	Options
	folder *Folder
	build  *build
	cells  []Cell
	begun  time.Time

	mu    sync.Mutex // guards what follows, and the folder
	round int
	tasks []Task // of the round, those that have not been begun
	done  map[string]bool
	count int
	err   error // the first failure
}

// Run soaks until the settings' end, the end of ctx, or a failure of the harness, and gives the summary of all that the
// folder holds. The error is the harness's own failure, or, without a summary, why the folder is not taken.
func Run(ctx context.Context, o Options) (*Summary, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	cells, out, err := o.Cells(o.Check)
	if err != nil {
		return nil, err
	}
	first, err := o.Round(0, cells, o.Check)
	if err != nil {
		return nil, err
	}
	b, err := buildOf(o.Exe, o.Programs)
	if err != nil {
		return nil, err
	}
	f, err := open(o.Into, o.Settings, cells, out, o.session(b), ending)
	if err != nil {
		return nil, err
	}
	s := &soak{Options: o, folder: f, build: b, cells: cells, begun: time.Now(), round: -1, done: f.done()}
	s.announce(out)
	s.pace(first)
	var g errgroup.Group
	for range o.Jobs {
		g.Go(func() error { return s.work(ctx) })
	}
	err = errors.Join(g.Wait(), run.DropLatest(filepath.Join(o.Into, runsDir)))
	sum, write := f.Summarise()
	return sum, errors.Join(err, write, f.close())
}

// session is this start, with a build.
func (o Options) session(made *build) Session {
	n := Session{Started: time.Now().UTC(), Command: o.Command, Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, Build: made.digest, Cores: runtime.NumCPU()}
	if b, ok := debug.ReadBuildInfo(); ok {
		n.Commit = commit(b.Settings)
	}
	return n
}

// changed follows a commit from which the build differs.
const changed = " with changes"

// commit is what the build was made from, as far as it knows.
func commit(settings []debug.BuildSetting) string {
	var rev, suffix string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			suffix = changed
		}
	}
	if rev == "" {
		return ""
	}
	return rev + suffix
}

func (s *soak) announce(out []LeftOut) {
	many := map[bool]string{true: "round after round", false: number(s.Rounds, "round")}[s.Rounds == 0]
	if s.Duration > 0 {
		many += fmt.Sprintf(", none begun after %s", s.Duration)
	}
	fmt.Fprintf(s.Out, "soak: %s, %s, from seed %d on, %d at a time, into %s\n", number(len(s.cells), "cell"), many, s.FirstSeed, s.Jobs, s.Into)
	for _, l := range out {
		fmt.Fprintf(s.Out, "soak: left out: %s: %s\n", l.Cell, l.Why)
	}
	for _, l := range s.folder.saved {
		fmt.Fprintf(s.Out, "soak: not brought to its end before, and what is there shows a violation, so it counts: %s\n", l.Run)
	}
	if n := len(s.folder.swept); n > 0 {
		fmt.Fprintf(s.Out, "soak: not brought to their end before; they show no violation, so they are gone and done again: %s\n", number(n, "run"))
	}
	if n := len(s.done); n > 0 {
		fmt.Fprintf(s.Out, "soak: done before, and not done again: %s\n", number(n, "run"))
	}
}

// work does one run after the other until there is none to begin.
func (s *soak) work(ctx context.Context) error {
	for {
		t, ok, err := s.next(ctx)
		if err != nil || !ok {
			return err
		}
		if err := s.one(ctx, t); err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			return err
		}
	}
}

// next is the run to begin now; there is none once the harness has failed, ctx has ended or the time is up.
func (s *soak) next(ctx context.Context) (t Task, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.err != nil || ctx.Err() != nil || s.Duration > 0 && time.Since(s.begun) >= s.Duration {
			return Task{}, false, nil
		}
		if len(s.tasks) == 0 {
			if s.round++; s.round >= MaxRounds || s.Rounds > 0 && s.round >= s.Rounds {
				return Task{}, false, nil
			}
			if s.tasks, err = s.Round(s.round, s.cells, s.Check); err != nil {
				return Task{}, false, err
			}
		}
		t, s.tasks = s.tasks[0], s.tasks[1:]
		if s.done[t.key()] {
			continue
		}
		s.done[t.key()] = true
		if refused := s.Check(t.Args()); refused != nil { // which it was not under the first seed
			if err := s.leaveOut(Line{Cell: t.Cell, With: t.Nemesis, Seed: t.Seed, Started: time.Now().UTC(), LeftOut: refused.Error()}); err != nil {
				return Task{}, false, err
			}
			continue
		}
		return t, true, nil
	}
}

// leaveOut keeps that a run was not begun. Whoever calls it has the lock.
func (s *soak) leaveOut(l Line) error {
	fmt.Fprintf(s.Out, "soak: %s: left out: %s\n", l.name(), l.LeftOut)
	return s.folder.add(l)
}

// one does a run and keeps what it has shown.
func (s *soak) one(ctx context.Context, t Task) error {
	name := strings.ReplaceAll(fmt.Sprintf("%s-%s-%s-%d.txt", t.Cell.Workload, t.Cell.Backend, t.Nemesis, t.Seed), ",", "+")
	c := &child{exe: s.Exe, runs: filepath.Join(s.Into, runsDir), output: filepath.Join(s.Into, outputDir, name), task: t, env: os.Environ(), overdue: overdue, grace: grace}
	o, err := c.do(ctx)
	if err != nil {
		return err
	}
	replaced := s.alike(o.line.Run)
	if replaced != nil && !o.cut && o.line.Failed == "" && o.line.Status != verdict.Violated {
		o.line.Failed = replaced.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !o.told() {
		fmt.Fprintf(s.Out, "soak: %s: interrupted, not counted\n", t)
		return c.forget()
	}
	if o.line.Failed != "" {
		fmt.Fprintf(s.Out, "soak: %s: THE HARNESS FAILED: %s\n", t, o.line.Failed)
		return errors.Join(fmt.Errorf("%w: %s: %s", ErrHarness, t, o.line.Failed), s.folder.add(o.line))
	}
	if o.line.LeftOut != "" {
		return errors.Join(s.leaveOut(o.line), os.Remove(c.output))
	}
	s.count++
	fmt.Fprintf(s.Out, "soak: %4d  %s: %s after %.0f s%s\n", s.count, t, o.line.Status, o.line.Took.Seconds(), o.line.why())
	err = s.folder.add(o.line)
	if o.line.Besides == "" {
		err = errors.Join(err, os.Remove(c.output))
	} else {
		fmt.Fprintf(s.Out, "soak: after the verdict of %s: THE HARNESS FAILED: %s\n", t, o.line.Besides)
	}
	if o.line.Besides != "" && !o.cut { // the verdict stays one, and the soak ends all the same
		err = errors.Join(fmt.Errorf("%w: after the verdict of %s: %s", ErrHarness, t, o.line.Besides), err)
	}
	if replaced != nil { // the violation stays one, and the soak ends all the same
		fmt.Fprintf(s.Out, "soak: after %s: THE HARNESS FAILED: %s\n", t, replaced)
		err = errors.Join(fmt.Errorf("%w: after %s: %w", ErrHarness, t, replaced), err)
	}
	return err
}

// told tells whether the run gets its line and keeps its evidence. One that was interrupted does not, unless it had found a
// violation or the harness failed in it: no evidence of either is thrown away.
func (o outcome) told() bool {
	return !o.cut || o.line.Status == verdict.Violated || o.line.Failed != ""
}

// why is what a line has to say beside its status.
func (l Line) why() string {
	if l.Status == verdict.Pass {
		return ""
	}
	return ": " + l.Reason
}
