package verdict

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/history"
)

func fullRun() *Run {
	return &Run{
		Schema: SchemaVersion, ID: "a-run", Started: time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC), Overall: Violated, Reason: "one fell",
		Expect: &Expectation{Must: []string{"INV-05"}, Met: true}, Exit: 0,
		Invariants: []Invariant{{ID: "INV-05", Status: Violated, Checked: 3, Danger: map[string]int64{"stale_refused_rail": 2}, Found: 1,
			Violations: []Violation{{Sentence: "it went down", Account: "a", Events: []history.Event{{I: 7, W: history.PayDB, Token: math.MaxInt64 - 1}}}}}},
		Settings: Settings{Workload: "payout", Seed: math.MaxUint64, Drive: 30 * time.Second},
		Versions: map[string]string{"postgres": "16"}, Payouts: map[string]int64{"POSTED": 3}, Refusals: map[string]int64{"rail": 2},
		Operations: map[string]int64{"claim": 4}, Events: 9, Gaps: map[string]string{"paydb": "torn"},
	}
}

func TestAVerdictReadsAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte("an older one"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := fullRun()
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v (%v), want %+v", got, err, want)
	}
	text, _ := os.ReadFile(filepath.Join(dir, FileName))
	for _, s := range []string{`"token": "9223372036854775806"`, `"seed": "18446744073709551615"`} {
		if !strings.Contains(string(text), s) {
			t.Errorf("the file lacks %s: JavaScript would lose bits", s)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files stay behind, want the verdict alone", len(files))
	}
}

func TestAVerdictThatCannotBeWrittenOrReadSaysWhy(t *testing.T) {
	dir := t.TempDir()
	if err := fullRun().Write(filepath.Join(dir, "nowhere")); err == nil || !strings.Contains(err.Error(), "write the verdict to") {
		t.Errorf("writing into no folder gives %v", err)
	}
	for text, want := range map[string]string{`{"schema":2}`: "it has version 2", `{`: "read the verdict in"} {
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("reading %s gives %v, want %q", text, err, want)
		}
	}
}

// documented finds the fields that a section of docs/verdict.md has a row for.
func documented(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "verdict.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("docs/verdict.md has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var fields []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_A-Z]+)`").FindAllStringSubmatch(rest, -1) {
		fields = append(fields, m[1])
	}
	return fields
}

func TestEveryFieldOfTheVerdictIsDocumentedAndNoOther(t *testing.T) {
	for section, v := range map[string]any{
		"The run": Run{}, "An invariant": Invariant{}, "A violation": Violation{}, "The expectation": Expectation{}, "The settings": Settings{},
	} {
		fields := map[string]bool{}
		for i := range reflect.TypeOf(v).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			if name != "-" { // not in the file
				fields[name] = true
			}
		}
		want, got := slices.Sorted(maps.Keys(fields)), documented(t, section)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: documented are %v, the file has %v", section, got, want)
		}
	}
}

func TestTheDangerTableIsDocumentedAndNothingElseIs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "verdict.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for n, table := range [][]entry{danger, dangerOnPG} {
		for _, d := range table {
			least := map[bool]string{true: "per run", false: "1"}[d.perRun] + map[int]string{1: ", on PostgreSQL"}[n]
			row := "| " + d.nemesis + " | " + d.workload + " | " + d.invariant + " | `" + d.counter + "` | " + least + " |"
			rows[row] = true
			if !strings.Contains(string(text), row+"\n") {
				t.Errorf("docs/verdict.md lacks the row %s", row)
			}
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| [a-z-]+ \\| (payout|lock) \\| [A-Z]+-[0-9]+ \\| `.*$").FindAllString(string(text), -1) {
		if !rows[row] {
			t.Errorf("docs/verdict.md has the row %s, and the table has not", row)
		}
	}
}
