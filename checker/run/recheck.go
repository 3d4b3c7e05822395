package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/linear"
	"fenceproof/checker/verdict"
)

// Recheck judges the history in the run's folder dir again, from its files alone. It writes nothing. The program must call
// linear.RunIfAsked first of all.
func Recheck(dir string) (*verdict.Run, error) {
	v, err := judge(dir, nil, linear.Options{Run: dir, Again: true})
	if err != nil {
		return nil, fmt.Errorf("recheck %s: %w", dir, err)
	}
	return v, nil
}

// Write writes a verdict that Recheck gave of the run in dir, and its reports, where the run was ended before it could.
func Write(dir string, v *verdict.Run) error {
	return errors.Join(v.Write(dir), writeReports(dir, v))
}

// ReadRecorded reads it from a header. The error says what the header lacks.
func ReadRecorded(h history.Header) (Recorded, error) {
	var r Recorded
	if len(h.Config) == 0 {
		return r, errors.New("the history's header has no \"config\": it must say how the run was set, see docs/history.md")
	}
	if err := json.Unmarshal(h.Config, &r); err != nil {
		return r, fmt.Errorf("read the settings in the history's header: %w", err)
	}
	if what := r.contradicts(h); what != "" {
		return r, fmt.Errorf("read the settings in the history's header: its plan and its config name another %s each: one of the two was changed", what)
	}
	return r, nil
}

// contradicts names what the header's plan says otherwise than its settings; "" where they agree, or one of them says nothing.
func (r *Recorded) contradicts(h history.Header) string {
	var p struct {
		Workload, Backend, Nemesis string
		Seed                       *uint64
		Drive                      string
	}
	if len(h.Plan) == 0 || json.Unmarshal(h.Plan, &p) != nil {
		return ""
	}
	drive, err := time.ParseDuration(p.Drive)
	s := r.Settings
	for _, c := range []struct {
		what         string
		there, alike bool
	}{
		{"workload", p.Workload != "" && s.Workload != "", p.Workload == s.Workload},
		{"backend", p.Backend != "" && s.Backend != "", p.Backend == s.Backend},
		{"nemesis", p.Nemesis != "" && s.Nemesis != "", p.Nemesis == s.Nemesis},
		{"seed", p.Seed != nil && s.Workload != "", p.Seed != nil && *p.Seed == s.Seed && *p.Seed == h.Seed},
		{"drive", p.Drive != "" && s.Drive != 0, err == nil && drive == s.Drive},
	} {
		if c.there && !c.alike {
			return c.what
		}
	}
	return ""
}

func readAll(r *history.Reader, observe func(*history.Event)) error {
	for {
		var e history.Event
		err := r.Next(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the history: %w", err)
		}
		observe(&e)
	}
}
