package soak

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"fenceproof/checker/run"
	"fenceproof/nemesis/plan"
)

// Cell is what is run again and again, each time under another seed: a nemesis, a lock backend and a workload.
type Cell struct {
	// Nemesis is one of plan.Names, several with a + between them, or MixOfTwo.
	Nemesis  string `json:"nemesis"`
	Backend  string `json:"backend"`
	Workload string `json:"workload"`
}

// MixOfTwo is the nemesis of a cell whose runs are each broken by two nemeses that their seed chooses.
const MixOfTwo = "mix of two"

func (c Cell) String() string { return fmt.Sprintf("%s, %s on %s", c.Nemesis, c.Workload, c.Backend) }

// Task is one run to do.
type Task struct {
	Cell Cell
	// Nemesis is what breaks this run, as verify takes it: names with commas between them.
	Nemesis string
	Seed    uint64
	Drive   time.Duration
	Members int // of etcd, 0 for verify's default
}

// Args are the arguments with which this program does the run, without its surroundings.
func (t Task) Args() []string {
	args := []string{"verify", "--nemesis", t.Nemesis, "--backend", t.Cell.Backend, "--workload", t.Cell.Workload,
		"--seed", strconv.FormatUint(t.Seed, 10), "--duration", t.Drive.String()}
	if t.Members != 0 && t.Cell.Backend == plan.BackendEtcd {
		args = append(args, "--etcd-members", strconv.Itoa(t.Members))
	}
	return args
}

func (t Task) String() string {
	return fmt.Sprintf("%s, %s on %s, seed %d", strings.ReplaceAll(t.Nemesis, ",", "+"), t.Cell.Workload, t.Cell.Backend, t.Seed)
}

// key is what tells runs of one soak apart.
func (t Task) key() string { return Key(t.Cell, t.Nemesis, t.Seed) }

// Key tells the runs of a soak apart: no two have the same one.
func Key(c Cell, nemesis string, seed uint64) string {
	return fmt.Sprintf("%s|%s|%s|%s|%d", c.Nemesis, nemesis, c.Backend, c.Workload, seed)
}

// Nemeses are those that a soak cycles through by itself: all that break something and that verify can run for as long
// as it likes. A sweep has a command of its own.
func Nemeses() []string {
	return slices.DeleteFunc(plan.Names(), func(n string) bool { return n == plan.None || n == plan.Sweep })
}

// Settings say what a soak runs. They are kept in its folder, so that it can be continued.
type Settings struct {
	Nemeses   []string `json:"nemeses"`         // a mix has a + between its parts
	Mixes     int      `json:"mixes,omitempty"` // runs per round, backend and workload with two nemeses that the seed chooses
	Backends  []string `json:"backends"`
	Workloads []string `json:"workloads"`
	FirstSeed uint64   `json:"firstSeed,string"`
	Rounds    int      `json:"rounds,omitempty"` // of each cell; 0: as many as Duration has time for
	// Duration is after how long no more run is begun, 0: never. It counts from each start of the soak. Drive is how long
	// each run is driven. Both are nanoseconds.
	Duration time.Duration `json:"duration,omitempty"`
	Drive    time.Duration `json:"drive"`
	Members  int           `json:"etcdMembers,omitempty"`
	Jobs     int           `json:"jobs"` // runs at a time
}

// UnmarshalJSON reads the first seed as a number as well, as it once was written.
func (s *Settings) UnmarshalJSON(b []byte) error {
	type plain Settings
	x := struct {
		*plain
		FirstSeed json.Number `json:"firstSeed"`
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	seed, err := strconv.ParseUint(x.FirstSeed.String(), 10, 64)
	if err != nil {
		return fmt.Errorf("firstSeed: %w", err)
	}
	s.FirstSeed = seed
	return nil
}

// Limits of a soak.
const (
	MaxJobs   = 16
	MaxRounds = 1_000_000
	MaxMixes  = 100
)

// Check tells whether verify would take the arguments and the machine could do the run: ErrNotHere where it could not.
type Check func(args []string) error

// ErrNotHere says that this machine cannot do a run that another one could.
var ErrNotHere = run.ErrNotHere

// LeftOut is a cell that is not run: not every nemesis can break every backend or workload, nor can every machine do what a
// nemesis takes.
type LeftOut struct {
	Cell Cell   `json:"cell"`
	Why  string `json:"why"`
	// NotHere: another machine could do it.
	NotHere bool `json:"notHere,omitempty"`
}

// Validate says what is wrong with s, all of it.
func (s Settings) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case s.Rounds < 0 || s.Rounds > MaxRounds:
		bad("--rounds %d: 1 to %d", s.Rounds, MaxRounds)
	case s.Duration < 0:
		bad("--duration %s: it must be positive", s.Duration)
	case s.Rounds == 0 && s.Duration == 0:
		bad("a soak needs an end: --duration 8h, --rounds 9, or both")
	}
	if last := uint64(max(1, cmp.Or(s.Rounds, MaxRounds)) - 1); s.FirstSeed > math.MaxUint64-last {
		bad("--first-seed %d: the seeds of %d rounds end at %d; take at most %d", s.FirstSeed, last+1, uint64(math.MaxUint64), math.MaxUint64-last)
	}
	if s.Drive < run.MinDrive || s.Drive > plan.MaxDrive {
		bad("--drive is %s; at least %s, at most %s", s.Drive, run.MinDrive, plan.MaxDrive)
	}
	if s.Jobs < 1 || s.Jobs > MaxJobs {
		bad("--jobs %d: 1 to %d runs at a time", s.Jobs, MaxJobs)
	}
	if s.Mixes < 0 || s.Mixes > MaxMixes {
		bad("--mixes %d: 0 to %d", s.Mixes, MaxMixes)
	}
	if len(s.Nemeses) == 0 && s.Mixes == 0 {
		bad("there is no nemesis and no mix, so there is nothing to run")
	}
	return errors.Join(errs...)
}

// Cells are the cells of s that exist, in the order in which a round goes through them. A cell that verify refuses is
// left out where another backend or workload takes its nemesis, and else an error: nothing would ever run it. A nemesis that
// this machine cannot do is left out, unless it is all that there is.
func (s Settings) Cells(check Check) (cells []Cell, out []LeftOut, err error) {
	for _, c := range s.product(plan.None) { // what is refused with nothing to break is a mistake in the load
		if err := check(s.task(c, plan.None, s.FirstSeed).Args()); err != nil {
			return nil, nil, fmt.Errorf("%s on %s cannot be run: %w", c.Workload, c.Backend, err)
		}
	}
	for _, n := range s.Nemeses {
		begun, why, here := len(cells), error(nil), true
		for _, c := range s.product(n) {
			if refused := check(s.task(c, asVerify(n), s.FirstSeed).Args()); refused != nil {
				notHere := errors.Is(refused, ErrNotHere)
				out, why = append(out, LeftOut{c, refused.Error(), notHere}), refused
				here = here && !notHere
				continue
			}
			cells = append(cells, c)
		}
		if len(cells) == begun && here {
			return nil, nil, fmt.Errorf("nemesis %s runs on none of the backends and workloads that were asked for: %w", n, why)
		}
	}
	if s.Mixes > 0 {
		for _, c := range s.product(MixOfTwo) {
			// The seed decides on the order of the mixes alone, and not on which ones there are, so that one seed tells of all.
			if _, err := s.draw(c, s.FirstSeed, s.Mixes-1, check); err != nil {
				return nil, nil, err
			}
			not, some := s.mixesNotHere(c, check)
			if out = append(out, not...); some {
				cells = append(cells, c)
			}
		}
	}
	if len(cells) == 0 {
		return nil, nil, fmt.Errorf("there is nothing to run: %s: %s", out[0].Cell, out[0].Why)
	}
	return cells, out, nil
}

// mixesNotHere are the mixes of a cell that this machine cannot do; there are some that it can. Their seeds draw them all the
// same, and these runs are left out.
func (s Settings) mixesNotHere(c Cell, check Check) (out []LeftOut, some bool) {
	for _, p := range s.pairs() {
		switch err := check(s.task(c, p, s.FirstSeed).Args()); {
		case err == nil:
			some = true
		case errors.Is(err, ErrNotHere):
			out = append(out, LeftOut{Cell{strings.ReplaceAll(p, ",", "+"), c.Backend, c.Workload}, err.Error(), true})
		}
	}
	return out, some
}

// product is the cell of a nemesis for every backend and workload.
func (s Settings) product(nemesis string) []Cell {
	var all []Cell
	for _, w := range s.Workloads {
		for _, b := range s.Backends {
			all = append(all, Cell{nemesis, b, w})
		}
	}
	return all
}

func (s Settings) task(c Cell, nemesis string, seed uint64) Task {
	return Task{Cell: c, Nemesis: nemesis, Seed: seed, Drive: s.Drive, Members: s.Members}
}

// asVerify is a nemesis as verify takes it.
func asVerify(nemesis string) string { return strings.ReplaceAll(nemesis, "+", ",") }

// Round is what a round runs: each cell once, all under one seed. Rounds count from 0.
func (s Settings) Round(n int, cells []Cell, check Check) ([]Task, error) {
	seed := s.FirstSeed + uint64(n)
	var tasks []Task
	for _, c := range cells {
		if c.Nemesis != MixOfTwo {
			tasks = append(tasks, s.task(c, asVerify(c.Nemesis), seed))
			continue
		}
		for m := range s.Mixes {
			t, err := s.draw(c, seed, m, check)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, t)
		}
	}
	return tasks, nil
}

// draw is the m-th mix of a cell under a seed: the seed puts all pairs into an order, and those that verify takes for the
// cell come one after the other, whether or not this machine can do them: under one seed every machine draws the same.
func (s Settings) draw(c Cell, seed uint64, m int, check Check) (Task, error) {
	pairs := s.pairs()
	rng := rand.New(rand.NewPCG(seed, streamOf(c)))
	rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	var fit []Task
	for _, p := range pairs {
		t := s.task(c, p, seed)
		if err := check(t.Args()); err == nil || errors.Is(err, ErrNotHere) {
			if fit = append(fit, t); len(fit) > m {
				return t, nil
			}
		}
	}
	if len(s.singles()) < 2 {
		return Task{}, fmt.Errorf("--mixes %d: --nemesis %s has no two nemeses to mix", s.Mixes, strings.Join(s.Nemeses, ","))
	}
	return Task{}, fmt.Errorf("--mixes %d: of %s with %s on %s there are %d mixes of two", s.Mixes, strings.Join(s.singles(), ", "), c.Workload, c.Backend, len(fit))
}

// streamOf gives every cell a stream of its own, so that one round's cells are not all broken by the same two.
func streamOf(c Cell) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range []byte(c.Backend + "|" + c.Workload) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// SameMix tells whether two nemeses, with a + between their parts, are the same: the order of the parts means nothing.
func SameMix(a, b string) bool {
	parts := func(s string) []string { return slices.Sorted(strings.SplitSeq(s, "+")) }
	return slices.Equal(parts(a), parts(b))
}

// singles are the nemeses that mixes are drawn from.
func (s Settings) singles() []string {
	known := Nemeses()
	if len(s.Nemeses) == 0 {
		return known
	}
	var all []string
	for _, n := range s.Nemeses {
		for part := range strings.SplitSeq(n, "+") {
			if slices.Contains(known, part) && !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
	}
	return all
}

// pairs are all pairs of singles, as verify takes them, but for those that have a cell of their own.
func (s Settings) pairs() []string {
	var all []string
	one := s.singles()
	for i := range one {
		for _, other := range one[i+1:] {
			if !slices.ContainsFunc(s.Nemeses, func(n string) bool { return SameMix(n, one[i]+"+"+other) }) {
				all = append(all, one[i]+","+other)
			}
		}
	}
	return all
}
