package main

import (
	"encoding/json"
	"strings"
	"testing"

	"fenceproof/checker/doctor"
)

func TestDoctorsExitStatusAndItsJSONSayWhatIsLacking(t *testing.T) {
	t.Setenv("PG_BIN", "/nowhere")
	out, status := fenceproof(t, "doctor", "--runs", t.TempDir())
	if status != 1 || !strings.Contains(out, "NO  PostgreSQL") || !strings.Contains(out, "→ unset PG_BIN") {
		t.Errorf("doctor ends with %d and prints\n%s", status, out)
	}
	if out, status := fenceproof(t, "doctor", "--runs", "/proc/none/runs"); status != 1 || !strings.Contains(out, "NO  runs") || !strings.Contains(out, "→ give every command --runs") {
		t.Errorf("where no run can be made doctor ends with %d and prints\n%s", status, out)
	}
	out, status = fenceproof(t, "doctor", "--runs", t.TempDir(), "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 1 || r.Fit || len(r.Findings) < 10 {
		t.Errorf("doctor --json ends with %d and prints, %v\n%s", status, err, out)
	}
}
