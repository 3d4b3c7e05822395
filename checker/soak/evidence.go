package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
)

// Unfinished is a run that was begun and that no line tells of: it was going on when its soak was killed. Unless it has
// its verdict (Untold), what it shows is not known before the soak goes on, which judges it.
type Unfinished struct {
	Run    string `json:"run"`
	Folder string `json:"folder"` // of the run, relative to that of the (first) soak
	Into   string `json:"into"`   // the soak's folder, as whoever made the summary has named it
}

// againOr is what can be done about a line that is not true.
const againOr = "restore whichever was changed, or remove the line to have its run done again"

// contradicted says which lines say otherwise than the verdicts of their runs do: a summary is made of the lines, and none is made
// of lines that the evidence does not bear out. A verdict that is not there says nothing (gone).
func (f *Folder) contradicted() error {
	var errs []error
	for n, l := range f.Lines {
		if l.Run == "" {
			continue
		}
		v, err := verdictOf(filepath.Join(f.Dir, runsDir, l.Run))
		if err == nil && v != nil {
			err = whole(v, l.Run)
		}
		if v != nil && err == nil && l.counts() {
			_ = f.alike(v) // the first says what the soak was begun with
		}
		switch {
		case v == nil && err == nil:
		case !l.counts(): // the harness failed, whose verdicts need not be whole; but a violation is a violation
			if err == nil && statusOf(v) == verdict.Violated {
				errs = append(errs, fmt.Errorf("run %d in %s says of %s that the harness failed, and its verdict that it was violated: %s", n+1, linesFile, l.Run, againOr))
			}
		case err != nil:
			errs = append(errs, fmt.Errorf("run %d in %s: %w: %s", n+1, linesFile, err, againOr))
		default:
			if said, shown := l.told(), lineOf(f.taskOf(v), v).told(); said != shown {
				errs = append(errs, fmt.Errorf("run %d in %s says of %s: %s; its verdict says: %s: %s", n+1, linesFile, l.Run, said, shown, againOr))
			}
		}
	}
	if len(errs) > 3 {
		errs = append(errs[:3], fmt.Errorf("and %d more", len(errs)-3))
	}
	return errors.Join(errs...)
}

// told is what a line and a verdict must both say.
func (l Line) told() string {
	nemeses := slices.Sorted(strings.SplitSeq(strings.ReplaceAll(l.With, "+", ","), ",")) // their order means nothing
	declared := ""
	if l.Declared {
		declared = ", with the declared violation"
	}
	return fmt.Sprintf("%s, %s on %s, seed %d: %s%s", strings.Join(nemeses, "+"), l.Workload, l.Backend, l.Seed, l.Status, declared)
}

// verdictOf is the verdict on disk of the run in dir, nil where there is none.
func verdictOf(dir string) (*verdict.Run, error) {
	path := filepath.Join(dir, verdict.FileName)
	if is, err := os.Stat(path); err == nil && !is.Mode().IsRegular() {
		return nil, irregular(path)
	}
	v, err := verdict.Read(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return v, err
}

// gone tells whether a run that counts has no verdict any more. Nothing of the program's own ever removes one.
func (f *Folder) gone(l Line) bool {
	_, err := os.Stat(filepath.Join(f.Dir, runsDir, l.Run, verdict.FileName))
	return l.counts() && errors.Is(err, os.ErrNotExist)
}

// begunRuns are the folders of runs in the soak's folder dir, the oldest first.
func begunRuns(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, runsDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() || !run.IsRun(e.Name()) })
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// notTold are the folders of runs that no line tells of, the oldest first.
func (f *Folder) notTold() ([]string, error) {
	names, err := begunRuns(f.Dir)
	told := map[string]bool{}
	for _, l := range f.Lines {
		told[l.Run] = true
	}
	return slices.DeleteFunc(names, func(n string) bool { return told[n] }), err
}

// untoldOf adds the runs that no line tells of: those that were begun and not brought to their end, and what the verdicts that are
// there all the same accuse the system of, or leave open. While another process has the soak going on its runs may well come to
// their end, and what they left open may be done again; a violation stays one.
func (s *Summary) untoldOf(f *Folder, first string) {
	on, err := GoingOn(f.Dir)
	others := f.file == nil && (on || err != nil)
	names, _ := f.notTold() // a folder that cannot be read has none that could be named
	for _, n := range names {
		if !others {
			s.Unfinished = append(s.Unfinished, Unfinished{n, f.relative(first, n), f.Dir})
		}
		l, there := f.shown(n)
		if there && l.Status != verdict.Pass && (!others || l.Status == verdict.Violated) {
			s.Untold = append(s.Untold, Kept{l, f.relative(first, n)})
		}
	}
}

// shown is what the verdict of a run says that no line tells of, if there is one. What cannot be read leaves the run open.
func (f *Folder) shown(id string) (l Line, there bool) {
	v, err := verdictOf(filepath.Join(f.Dir, runsDir, id))
	if err == nil && v != nil {
		err = whole(v, id)
	}
	switch {
	case err != nil:
		return Line{Run: id, Status: verdict.Inconclusive, Reason: err.Error()}, true
	case v == nil:
		return l, false
	}
	return lineOf(f.taskOf(v), v), true
}

// outspoken says which runs that no line tells of have a verdict other than a pass, the worst first.
func (s *Summary) outspoken() string {
	if len(s.Untold) == 0 {
		return ""
	}
	var names []string
	for _, status := range []verdict.Status{verdict.Violated, verdict.Inconclusive, verdict.NotExercised} {
		for _, k := range s.Untold {
			if k.Status == status {
				names = append(names, fmt.Sprintf("%s is %s", k.Folder, status))
			}
		}
	}
	have := "have verdicts"
	if len(names) == 1 {
		have = "has a verdict"
	}
	return fmt.Sprintf("; %s of which no line tells %s, and that counts: %s", number(len(names), "run"), have, few(names))
}

// unproven says what the lines rest on no more, and what they do not tell of.
func (s *Summary) unproven() string {
	text := ""
	if n := len(s.Gone); n > 0 {
		text = fmt.Sprintf("; the evidence of %s is gone, without which nothing bears the lines out: %s", number(n, "run"), few(folders(s.Gone)))
	}
	if n := len(s.Unfinished); n > 0 {
		were, them := "were begun and not brought to their end", "them"
		if n == 1 {
			were, them = "was begun and not brought to its end", "it"
		}
		var again []string
		for _, u := range s.Unfinished {
			if c := "fenceproof soak --into " + u.Into; !slices.Contains(again, c) {
				again = append(again, c)
			}
		}
		text += fmt.Sprintf("; %s %s: %s judges %s", number(n, "run"), were, few(again), them)
	}
	return text + s.outspoken()
}

func folders(runs []Kept) []string {
	names := make([]string, len(runs))
	for i, r := range runs {
		names[i] = r.Folder
	}
	return names
}

// inWords says for people what is wrong with a line that could not be read.
func inWords(line []byte, err error) error {
	var parts struct {
		Seed *json.RawMessage `json:"seed"`
	}
	if json.Unmarshal(line, &parts) == nil && parts.Seed != nil {
		text := strings.Trim(string(*parts.Seed), `"`)
		if _, bad := strconv.ParseUint(text, 10, 64); bad != nil {
			return fmt.Errorf("%s is no seed, which are whole numbers from 0 to 18446744073709551615; restore the line, or remove it to have its run done again", text)
		}
	}
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s cannot be a %s; restore the line, or remove it to have its run done again", wrong.Field[strings.LastIndex(wrong.Field, ".")+1:], wrong.Value)
	}
	return err
}
