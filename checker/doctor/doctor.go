// Package doctor says what this machine can and cannot do for a run, and the command that mends what it cannot. What can be
// tried is tried, and nothing is taken for granted because a file or a setting says so.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// State is how a finding stands.
type State string

// The states.
const (
	Fine    State = "fine"    // it is there, or works
	Without State = "without" // it is not, and runs do without it
	Lacking State = "lacking" // it is not, and something that the suite can do needs it
)

// Finding is one thing that was looked at.
type Finding struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Found says what there is, or why there is nothing.
	Found string `json:"found"`
	// For says what needs it.
	For string `json:"for"`
	// Mend is what to type; empty where nothing needs mending.
	Mend string `json:"mend,omitempty"`
}

// Report is the state of a machine.
type Report struct {
	// Fit: nothing is lacking.
	Fit      bool      `json:"fit"`
	Findings []Finding `json:"findings"`
}

// Surroundings says where the suite is to work.
type Surroundings struct {
	Runs string // folder of all runs
	Bin  string // folder of the services' binaries
	// Memory is how many bytes of file systems in memory a run fills.
	Memory int64
}

// probe looks at one thing.
type probe struct {
	name, why string
	look      func(ctx context.Context, s Surroundings) (State, string, string) // state, what was found, how to mend it
}

// Examine looks at everything. It starts processes and removes what it has made.
func Examine(ctx context.Context, s Surroundings) (r Report, err error) {
	ward, err := openWard(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() {
		if e := ward.close(ctx); e != nil && err == nil {
			err = fmt.Errorf("clean up after looking: %w", e)
		}
	}()
	r.Fit = true
	for _, p := range append(probes(), ward.probes()...) {
		state, found, mend := p.look(ctx, s)
		if state == Fine {
			mend = ""
		}
		r.Fit = r.Fit && state != Lacking
		r.Findings = append(r.Findings, Finding{Name: p.name, State: state, Found: found, For: p.why, Mend: mend})
	}
	return r, nil
}

// Print writes r for people.
func (r Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	marks := map[State]string{Fine: "ok", Without: "--", Lacking: "NO"}
	lacking := 0
	for _, f := range r.Findings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", marks[f.State], f.Name, f.Found)
		if f.State != Fine {
			fmt.Fprintf(t, "\t\tfor %s\n", f.For)
		}
		if f.Mend != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", f.Mend)
		}
		if f.State == Lacking {
			lacking++
		}
	}
	if r.Fit {
		fmt.Fprintf(t, "\nThis machine can do everything that the suite does.\n")
	} else {
		fmt.Fprintf(t, "\nThis machine lacks %d of %d things; the lines with an arrow say what to do.\n", lacking, len(r.Findings))
	}
	return t.Flush()
}

// owner is who we are.
func owner() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return fmt.Sprintf("an ordinary user (uid %d)", os.Geteuid())
}
