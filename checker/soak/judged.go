package soak

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
)

// judged is what the child has shown. The verdict on disk decides, however the process ended: what failed after the verdict
// was written is told beside it. Of a run that nobody let come to its end by itself, and of one whose exit status
// contradicts its verdict, a violation alone counts; so it does where there is no verdict, and the history shows one.
// A run that was cut and ended as it should is no failure, even where it left nothing.
func (c *child) judged(cut, late bool) Line {
	why, id := c.wrong(cut, late), c.folder()
	l := Line{Cell: c.task.Cell, With: c.task.Nemesis, Seed: c.task.Seed, Run: id, Started: time.Now().UTC()}
	if id == "" {
		if p := c.cmd.ProcessState; p != nil && p.ExitCode() == run.ExitNotHere && !late {
			l.LeftOut = run.ErrNotHere.Error() + c.said()
			return l
		}
		if why == "" && cut && (c.obeyed() || c.cmd.ProcessState.ExitCode() == verdict.ExitOpen) { // it had not begun
			return l
		}
		if why == "" {
			why = fmt.Sprintf("verify ended with %s and left no run", c.cmd.ProcessState)
		}
		l.Failed = why + c.said()
		return l
	}
	v, err := finding(filepath.Join(c.runs, id))
	switch {
	case err != nil && v != nil: // a violation is one, whether its report could be written or not
		return c.beside(l, v, strings.Trim(why+"; "+err.Error(), "; "), cut, late)
	case err != nil && why == "":
		why = fmt.Sprintf("verify ended with %s: %v", c.cmd.ProcessState, err)
	case err != nil:
		why += "; besides, " + err.Error()
	case v == nil && why == "":
		why = fmt.Sprintf("verify ended with %s and wrote no verdict", c.cmd.ProcessState)
	case v == nil:
	case v.Exit == verdict.ExitHarness: // the verdict says itself that it proves nothing
		if why == "" {
			why = fmt.Sprintf("verify ended with %s, and its verdict says: %s", c.cmd.ProcessState, v.Reason)
		}
	default:
		return c.beside(l, v, why, cut, late)
	}
	l.Failed = why + c.said()
	return l
}

// beside is the line of a run that came to a verdict, with what went wrong besides.
func (c *child) beside(l Line, v *verdict.Run, why string, cut, late bool) Line {
	contradicts := false
	if exit := c.cmd.ProcessState.ExitCode(); why == "" && exit != v.Exit && !(cut && c.obeyed()) {
		contradicts, why = true, fmt.Sprintf("verify ended with %s, and its verdict stands for %d", c.cmd.ProcessState, v.Exit)
	}
	if why != "" {
		why += c.said()
	}
	if (late || contradicts || cut && why != "") && statusOf(v) != verdict.Violated {
		l.Failed = why
		return l
	}
	l = lineOf(c.task, v)
	if l.Besides = why; why == "" && l.Status == verdict.Violated && !cut { // the exit status is a violation's, whatever failed after it
		l.Besides = c.complaint()
	}
	return l
}

// wrong says how the process ended where verify does not end so of itself, nor because it was told to.
func (c *child) wrong(cut, late bool) string {
	if ended := new(exec.ExitError); c.err != nil && !errors.As(c.err, &ended) || c.cmd.ProcessState == nil {
		return fmt.Sprintf("how it ended is not known: %v", c.err)
	}
	if late {
		return fmt.Sprintf("it did not end by itself (%s)", c.cmd.ProcessState)
	}
	switch c.cmd.ProcessState.ExitCode() {
	case verdict.ExitPass, verdict.ExitViolated, verdict.ExitOpen:
		return ""
	}
	if cut && c.obeyed() {
		return ""
	}
	return fmt.Sprintf("verify ended with %s", c.cmd.ProcessState)
}

// obeyed tells whether the signal that tells the process to end ended it: verify takes it for a wish only from when it has
// read its flags until it has judged.
func (c *child) obeyed() bool {
	s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && s.Signal() == c.signal
}

// most is how much of what a child printed is told, in bytes: the end.
const most = 2000

// said is the end of what the child printed.
func (c *child) said() string {
	text, err := os.ReadFile(c.output)
	if err != nil || len(text) == 0 {
		return ""
	}
	return "; it said: " + endOf(string(text))
}

// complaint is the error that the child ended with, "" where it had none.
func (c *child) complaint() string {
	printed, err := os.ReadFile(c.output)
	if err != nil {
		return ""
	}
	_, text, found := strings.Cut("\n"+string(printed), "\nfenceproof: ")
	if !found {
		return ""
	}
	return endOf(text)
}

func endOf(text string) string {
	return strings.ToValidUTF8(strings.TrimSpace(text[max(0, len(text)-most):]), "")
}

// finding is the verdict of the run in dir. Where there is none, because the run was ended before it came to one, its
// history is judged, and the finding is what that shows where it is a violation. It is nil where there is nothing. With an
// error it is a violation whose verdict or report could not be written.
func finding(dir string) (*verdict.Run, error) {
	v, err := verdictOf(dir)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return recheck(dir)
	}
	if err := whole(v, filepath.Base(dir)); err != nil {
		return nil, err
	}
	return v, nil
}

// recheck judges the run in dir, which has no verdict, by its history. A violation gets its verdict and its report; of
// anything else nothing is written, for a run that did not come to its end shows nothing else.
func recheck(dir string) (*verdict.Run, error) {
	if _, err := os.Stat(run.HistoryDir(dir)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	v, err := run.Recheck(dir)
	switch {
	case errors.Is(err, history.ErrEmpty):
		return nil, nil
	case err != nil:
		return nil, err
	case statusOf(v) != verdict.Violated:
		return nil, nil
	}
	if err := whole(v, filepath.Base(dir)); err != nil {
		return nil, err
	}
	return v, run.Write(dir, v)
}

// whole says what is wrong with a verdict that is not that of the run id, or not all of one.
func whole(v *verdict.Run, id string) error {
	switch {
	case v.ID != id:
		return fmt.Errorf("the verdict of the run %s is not that run's: it is that of %q", id, v.ID)
	case !known(v.Overall):
		return fmt.Errorf("the verdict of the run %s is not whole: %q is no status of a run", id, v.Overall)
	case !slices.Contains([]int{verdict.ExitPass, verdict.ExitViolated, verdict.ExitOpen, verdict.ExitHarness}, v.Exit):
		return fmt.Errorf("the verdict of the run %s is not whole: %d is no exit status of a run", id, v.Exit)
	}
	return nil
}

// known tells whether s is a status.
func known(s verdict.Status) bool {
	return slices.Contains([]verdict.Status{verdict.Pass, verdict.Violated, verdict.Inconclusive, verdict.NotExercised}, s)
}
