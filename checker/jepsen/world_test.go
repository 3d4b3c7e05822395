package jepsen_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/history"
	"fenceproof/checker/jepsen"
	"fenceproof/checker/linear"
	"fenceproof/checker/verdict"
)

func TestMain(m *testing.M) {
	linear.RunIfAsked()
	os.Exit(m.Run())
}

// locks are the settings under which every history here is judged.
var locks = verdict.Settings{Workload: "lock"}

// imported imports a history and gives its folder.
func imported(t *testing.T, text string, o jepsen.ImportOptions) (string, jepsen.Imported) {
	t.Helper()
	dir := t.TempDir()
	made, err := jepsen.Import(strings.NewReader(text), dir, o)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return filepath.Join(dir, jepsen.HistoryDir), made
}

// judge gives LIN-01's verdict on the history in dir.
func judge(t *testing.T, dir string) verdict.Invariant {
	t.Helper()
	r, err := history.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var config struct{ Settings verdict.Settings }
	if err := json.Unmarshal(r.Header().Config, &config); err != nil {
		t.Fatal(err)
	}
	inv, err := linear.Judge(t.Context(), dir, config.Settings, nil, linear.Options{Unrecorded: r.Unrecorded()})
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// story is a verdict in a word, and the sentence of its violation.
func story(inv verdict.Invariant) string {
	if len(inv.Violations) > 0 {
		return inv.Violations[0].Sentence
	}
	return string(inv.Status)
}

// exported is the history in dir as Jepsen has it.
func exported(t *testing.T, dir string, o jepsen.ExportOptions) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := jepsen.Export(dir, &out, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// cut cuts a file off in the middle.
func cut(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)/2], 0o644); err != nil {
		t.Fatal(err)
	}
}
