package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fenceproof/checker/doctor"
)

func TestDoctorsExitStatusAndItsJSONSayWhatIsLacking(t *testing.T) {
	t.Setenv("PG_BIN", "/nowhere")
	for _, flags := range [][]string{nil, {"--json"}} {
		var out bytes.Buffer
		root := command()
		root.SetOut(&out)
		root.SetArgs(append([]string{"doctor", "--runs", t.TempDir()}, flags...))
		var e *exitError
		if err := root.ExecuteContext(t.Context()); !errors.As(err, &e) || e.status != 1 {
			t.Errorf("doctor %v: %v", flags, err)
		}
		if flags == nil {
			if !strings.Contains(out.String(), "NO  PostgreSQL") || !strings.Contains(out.String(), "→ unset PG_BIN") {
				t.Errorf("doctor prints\n%s", out.String())
			}
			continue
		}
		var r doctor.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Fit || len(r.Findings) < 10 {
			t.Errorf("doctor --json prints %v\n%s", err, out.String())
		}
	}
}
