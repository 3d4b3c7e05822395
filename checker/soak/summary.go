package soak

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// Summary is what a soak has shown, or several one after the other: summary.json.
type Summary struct {
	Schema int `json:"schema"`
	// Status is the worst of all cells', Reason says in one sentence why. Exit is the status of the command.
	Status   verdict.Status `json:"status"`
	Reason   string         `json:"reason"`
	Exit     int            `json:"exit"`
	Counts   Counts         `json:"counts"`
	Cells    []CellSummary  `json:"cells"`
	LeftOut  []LeftOut      `json:"leftOut,omitempty"`
	Failures []Line         `json:"failures,omitempty"` // the harness failed, and the run was not done again since
	// NotBegun are runs that were left out, for the machine could not do them then, and not done since. Of a mix that LeftOut says it
	// cannot do they are not told of one by one: there may be one in every round.
	NotBegun []Line `json:"notBegun,omitempty"`
	Besides  []Line `json:"besides,omitempty"` // the harness failed after the run's verdict, which counts
	Kept     []Kept `json:"kept,omitempty"`    // runs whose evidence is still there
	// Gone are runs that count and whose verdict is not there any more, with the folders where it was. A soak of which one is gone
	// is inconclusive at best.
	Gone       []Kept       `json:"gone,omitempty"`
	Unfinished []Unfinished `json:"unfinished,omitempty"`
	// Untold are runs that no line tells of and whose verdicts, which are there, are no pass: their soak was killed in between, or
	// is about to tell of them. The status is theirs where it is the worse one. The counts are those of the lines.
	Untold []Kept `json:"untold,omitempty"`
	Memory Memory `json:"memory"`
	Disk   Disk   `json:"disk"`
	// Took is the time of all runs together, in nanoseconds; Events are those of all histories.
	Took     time.Duration `json:"took"`
	Repeated int           `json:"repeated,omitempty"` // runs that another folder had with the same build; they count once
	Twice    int           `json:"twice,omitempty"`    // lines of a run that another line of the same folder tells of; they count once
	Events   int64         `json:"events"`
	Sessions []Session     `json:"sessions"`
}

// Counts counts runs by their status.
type Counts struct {
	Runs         int `json:"runs"`
	Pass         int `json:"pass"`
	Violated     int `json:"violated"`
	Inconclusive int `json:"inconclusive"`
	NotExercised int `json:"notExercised"`
	Declared     int `json:"declared,omitempty"` // of those that passed: what was violated had been declared to be
}

// CellSummary is what the runs of a cell have shown.
type CellSummary struct {
	Cell
	Counts
	Status  verdict.Status  `json:"status"` // the worst of its runs'; not exercised without any
	Seeds   Seeds           `json:"seeds"`  // ascending, each once
	With    []string        `json:"with,omitempty"`
	Dangers []DangerSummary `json:"dangers,omitempty"`
	Refused Spread          `json:"refused"` // stale writes answered FENCED_OUT, per run
	Took    time.Duration   `json:"took"`    // median of its runs
}

// DangerSummary is how a danger was met by the runs that needed it.
type DangerSummary struct {
	Name string `json:"name"`
	What string `json:"what"`
	Runs int    `json:"runs"` // that a pass of which needs it
	Met  int    `json:"met"`  // of these, those that met it as often as a pass needs
	Spread
}

// Spread is the smallest and the middle of several counts.
type Spread struct {
	Least  int64 `json:"least"`
	Median int64 `json:"median"`
}

// Kept is a run whose evidence is still there.
type Kept struct {
	Line
	Folder string `json:"folder"` // of the run, relative to that of the soak
}

// Memory is what the processes of the runs took at most, in bytes: of all runs, and of the first and last quarter of
// them the median. A soak in which something grows shows it there; each run has a process of its own.
type Memory struct {
	Most  int64 `json:"most"`
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	Own   int64 `json:"own"` // of the process that wrote the summary
}

// Disk is what the soak takes, in bytes.
type Disk struct {
	Now     int64 `json:"now"`     // all that is kept
	Largest int64 `json:"largest"` // the largest run before anything of it was removed
}

// Summarise makes the summary of all that the folder holds, and writes it there: summary.json and summary.html.
func (f *Folder) Summarise() (*Summary, error) {
	s := Summarise(f)
	return s, errors.Join(writeJSON(filepath.Join(f.Dir, summaryFile), s), s.writePage(f.Dir))
}

// Summarise is the summary of several folders. Links to kept runs are relative to the first. A run that several of them
// did with the same build counts once, with the worse of its statuses.
func Summarise(folders ...*Folder) *Summary {
	s := &Summary{Schema: Schema}
	var lines []Line
	at := map[string]place{}
	var cells []Cell
	for n, f := range folders {
		named := map[string]bool{}
		s.untoldOf(f, folders[0].Dir)
		here, not := f.cells()
		cells = union(cells, here)
		s.LeftOut = append(append(s.LeftOut, not...), f.head.LeftOut...)
		s.Sessions = append(s.Sessions, f.head.Sessions...)
		s.Disk.Now += size(f.Dir)
		s.Failures = append(s.Failures, f.undone(func(l Line) bool { return l.Failed != "" })...)
		s.NotBegun = append(s.NotBegun, f.undone(func(l Line) bool { return l.Failed == "" && l.LeftOut != "" && !f.named(l) })...)
		for _, l := range f.Lines {
			if l.Besides != "" {
				s.Besides = append(s.Besides, l)
			}
			if l.counts() {
				lines = s.once(lines, l, f, n, at)
				cells = union(cells, []Cell{l.Cell})
			}
			if named[l.Run] {
				continue
			}
			named[l.Run] = true
			switch kept := (Kept{l, f.relative(folders[0].Dir, l.Run)}); {
			case f.gone(l):
				s.Gone = append(s.Gone, kept)
			case f.whole(l.Run):
				s.Kept = append(s.Kept, kept)
			}
		}
	}
	s.LeftOut = slices.DeleteFunc(s.LeftOut, func(l LeftOut) bool { return slices.Contains(cells, l.Cell) })
	s.add(lines, cells)
	return s
}

// sort is what tells runs of one cell, nemeses and seed apart: how long they are driven, the members of etcd where that is
// the backend, and the build. It is "" where the build is not known for sure: only a digest tells builds with changes apart.
func (f *Folder) sort(l Line) string {
	var made Session
	for _, n := range f.head.Sessions {
		if !n.Started.After(l.Started) {
			made = n
		}
	}
	if made.Build == "" && (made.Commit == "" || strings.HasSuffix(made.Commit, changed)) {
		return ""
	}
	members := 0
	if l.Backend == plan.BackendEtcd {
		members = max(f.head.Settings.Members, 1) // as 0 stands for
	}
	return fmt.Sprintf("%s|%d|%s|%s", f.head.Settings.Drive, members, made.Commit, made.Build)
}

// relative is the path of a run's folder from dir.
func (f *Folder) relative(dir, id string) string {
	path := filepath.Join(f.Dir, runsDir, id)
	if r, err := filepath.Rel(dir, path); err == nil {
		return filepath.ToSlash(r)
	}
	return filepath.ToSlash(path)
}

// add sums the lines up.
func (s *Summary) add(lines []Line, cells []Cell) {
	of := map[Cell][]Line{}
	for _, l := range lines {
		of[l.Cell] = append(of[l.Cell], l)
		s.Counts.add(l)
		s.Took += l.Took
		s.Events += l.Events
		s.Disk.Largest = max(s.Disk.Largest, l.Disk)
	}
	for _, c := range cells {
		s.Cells = append(s.Cells, cellSummary(c, of[c]))
	}
	s.Memory = memoryOf(lines)
	s.conclude()
}

func (c *Counts) add(l Line) {
	c.Runs++
	switch l.Status {
	case verdict.Pass:
		c.Pass++
		if l.Declared {
			c.Declared++
		}
	case verdict.Violated:
		c.Violated++
	case verdict.NotExercised:
		c.NotExercised++
	default:
		c.Inconclusive++
	}
}

func cellSummary(c Cell, lines []Line) CellSummary {
	s := CellSummary{Cell: c, Status: verdict.NotExercised}
	if len(lines) > 0 {
		s.Status = verdict.Pass
	}
	var took, refused []int64
	for _, l := range lines {
		s.Counts.add(l)
		s.Status = verdict.Worse(s.Status, l.Status)
		s.Seeds = append(s.Seeds, l.Seed)
		took, refused = append(took, int64(l.Took)), append(refused, l.Refused)
		if c.Nemesis == MixOfTwo {
			s.With = append(s.With, l.With)
		}
	}
	slices.Sort(s.Seeds)
	s.Seeds = slices.Compact(s.Seeds)
	slices.Sort(s.With)
	s.With = slices.Compact(s.With)
	s.Dangers, s.Refused, s.Took = dangersIn(lines), spread(refused), time.Duration(spread(took).Median)
	return s
}

// dangersIn sums up the dangers of lines, in the order in which they come first.
func dangersIn(lines []Line) []DangerSummary {
	var all []DangerSummary
	counts, met := map[string][]int64{}, map[string]int{}
	for _, l := range lines {
		for _, d := range merged(l.Dangers) { // older lines have some under two names
			if counts[d.Name] == nil {
				all = append(all, DangerSummary{Name: d.Name, What: d.What})
			}
			counts[d.Name] = append(counts[d.Name], d.Count)
			if d.Count >= d.Need {
				met[d.Name]++
			}
		}
	}
	for i := range all {
		c := counts[all[i].Name]
		all[i].Runs, all[i].Met, all[i].Spread = len(c), met[all[i].Name], spread(c)
	}
	return all
}

// spread is the smallest of counts, and the middle one: of an even number the lower of the two.
func spread(counts []int64) Spread {
	if len(counts) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(counts))
	return Spread{Least: sorted[0], Median: sorted[(len(sorted)-1)/2]}
}

func memoryOf(lines []Line) Memory {
	var m Memory
	all := make([]int64, 0, len(lines))
	for _, l := range slices.SortedStableFunc(slices.Values(lines), func(a, b Line) int { return a.Started.Compare(b.Started) }) {
		all = append(all, l.Memory)
		m.Most = max(m.Most, l.Memory)
	}
	if quarter := (len(all) + 3) / 4; quarter > 0 {
		m.First, m.Last = spread(all[:quarter]).Median, spread(all[len(all)-quarter:]).Median
	}
	var own syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &own) == nil {
		m.Own = own.Maxrss * 1024
	}
	return m
}

// conclude fills in the status: violated beats inconclusive beats not exercised beats pass, and a cell in which nothing
// was run is not exercised. One that is left out is no cell.
func (s *Summary) conclude() {
	s.Status = verdict.NotExercised
	if len(s.Cells) > 0 {
		s.Status = verdict.Pass
	}
	for _, c := range s.Cells {
		s.Status = verdict.Worse(s.Status, c.Status)
	}
	s.Reason = s.reason() + s.lacks()
	if len(s.Gone) > 0 { // a line without evidence is enough to accuse, and not to acquit
		s.Status = verdict.Worse(s.Status, verdict.Inconclusive)
	}
	for _, k := range s.Untold {
		s.Status = verdict.Worse(s.Status, k.Status)
	}
	s.Exit = map[verdict.Status]int{verdict.Pass: verdict.ExitPass, verdict.Violated: verdict.ExitViolated}[s.Status]
	if s.Status != verdict.Pass && s.Status != verdict.Violated {
		s.Exit = verdict.ExitOpen
	}
	if n := len(s.Besides); n > 0 {
		s.Reason += fmt.Sprintf("; besides, the harness failed in %s", s.Besides[0].name())
		if n > 1 {
			s.Reason += fmt.Sprintf(" and %d more", n-1)
		}
	}
	if len(s.Failures) > 0 && s.Status != verdict.Violated {
		s.Status, s.Exit = verdict.Worse(s.Status, verdict.Inconclusive), verdict.ExitHarness
		s.Reason = fmt.Sprintf("the harness itself failed in %s: %s", s.Failures[0].name(), s.Failures[0].Failed)
	}
	s.Reason += s.unproven()
}

func (s *Summary) reason() string {
	switch {
	case s.Counts.Runs == 0 && len(s.Unfinished)+len(s.Untold) > 0:
		return "no run has come to its end"
	case s.Counts.Runs == 0:
		return "nothing was run"
	case s.Status == verdict.Pass && s.Counts.Declared > 0:
		return fmt.Sprintf("%s passed, %d of them with exactly the violations that their nemesis declares", allOf(s.Counts.Runs), s.Counts.Declared)
	case s.Status == verdict.Pass:
		return allOf(s.Counts.Runs) + " passed"
	}
	var worst, idle []string
	for _, c := range s.Cells {
		switch {
		case c.Runs == 0:
			idle = append(idle, c.Cell.String())
		case c.Status == s.Status:
			worst = append(worst, c.Cell.String())
		}
	}
	if len(worst) == 0 {
		return fmt.Sprintf("of %s nothing was run: %s", number(len(idle), "cell"), few(idle))
	}
	n := map[verdict.Status]int{verdict.Violated: s.Counts.Violated, verdict.Inconclusive: s.Counts.Inconclusive, verdict.NotExercised: s.Counts.NotExercised}[s.Status]
	return fmt.Sprintf("%d of %s %s: %s", n, number(s.Counts.Runs, "run"), s.Status, few(worst))
}

func (l Line) name() string {
	return Task{Cell: l.Cell, Nemesis: l.With, Seed: l.Seed}.String()
}

// few names the first three.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], "; "), len(names)-3)
}

func allOf(runs int) string {
	if runs == 1 {
		return "1 run"
	}
	return fmt.Sprintf("all %d runs", runs)
}

func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
