package soak

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

// nightly is the workflow that soaks every night.
func nightly(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", ".github", "workflows", "nightly.yml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// filled are the files of a soak's folder that the workflow reads, with every field in them that may be left out.
func filled(t *testing.T) map[string]any {
	t.Helper()
	cell := Cell{"clock", "pg", "payout"}
	line := Line{Cell: cell, With: "clock", Seed: 1, Run: "a run", Status: verdict.Violated, Reason: "because", Declared: true,
		Dangers: []Danger{{}}, Failed: "no room", LeftOut: "no clock", Besides: "no report"}
	files := map[string]any{
		summaryFile: Summary{Status: verdict.Pass, Reason: "because", Counts: Counts{Declared: 1}, Cells: []CellSummary{{Cell: cell, Seeds: Seeds{1}}},
			LeftOut: []LeftOut{{Cell: cell, Why: "no clock", NotHere: true}}, Failures: []Line{line}, NotBegun: []Line{line}, Besides: []Line{line},
			Kept: []Kept{{line, "runs"}}, Gone: []Kept{{line, "runs"}}, Unfinished: []Unfinished{{"a run", "runs", "soak"}}, Repeated: 1, Twice: 1, Sessions: []Session{{}}},
		linesFile: line,
	}
	for name, v := range files {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var read any
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		files[name] = read
	}
	return files
}

var (
	jqProgram = regexp.MustCompile(`\bjq -[a-z]+ '([^']*)' soak/([a-z.]+)`)
	jqPath    = regexp.MustCompile(`((?:\.[A-Za-z]\w*)+|\bto_entries)(?:\[\]\??)?( \| )?`)
	jqStatus  = regexp.MustCompile(`\.status == "([^"]*)"`)
)

// misread is what jq asks of the files in vain: to jq a field that is not there is null, and a check of it comes out green.
// Of jq it knows what the workflow's programs are made of: what stands before a | is what the rest is about.
func misread(workflow string, files map[string]any) (wrong []string, asked int) {
	programs := jqProgram.FindAllStringSubmatch(workflow, -1)
	if n := strings.Count(workflow, "jq -"); n != len(programs) {
		wrong = append(wrong, fmt.Sprintf("of %d programs %d are understood", n, len(programs)))
	}
	for _, p := range programs {
		program, about := p[1], files[p[2]]
		if about == nil {
			wrong = append(wrong, fmt.Sprintf("%s is no file of a soak", p[2]))
			continue
		}
		for _, m := range jqPath.FindAllStringSubmatch(program, -1) {
			asked++
			v, err := at(about, m[1])
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s in %s: %v", m[1], p[2], err))
			}
			if m[2] != "" {
				about = v
			}
		}
		for _, m := range jqStatus.FindAllStringSubmatch(program, -1) {
			if !known(verdict.Status(m[1])) {
				wrong = append(wrong, fmt.Sprintf("%q is no status", m[1]))
			}
		}
	}
	return wrong, asked
}

// at is what there is at a path of jq, and of a list what its elements are like.
func at(v any, path string) (any, error) {
	if path == "to_entries" {
		return map[string]any{"key": "", "value": 0}, nil
	}
	for name := range strings.SplitSeq(path[1:], ".") {
		object, _ := v.(map[string]any)
		if v = object[name]; v == nil {
			return nil, fmt.Errorf("there is no %s, only %q", name, slices.Sorted(maps.Keys(object)))
		}
	}
	if list, ok := v.([]any); ok {
		return list[0], nil
	}
	return v, nil
}

func TestTheNightlyWorkflowReadsFieldsThatASoakWrites(t *testing.T) {
	workflow, files := nightly(t), filled(t)
	wrong, asked := misread(workflow, files)
	for _, w := range wrong {
		t.Error(w)
	}
	if asked < 20 {
		t.Errorf("it asks for %d fields only", asked)
	}
	for _, name := range []string{".status", ".reason", ".counts", ".runs ", ".notBegun", ".with", ".workload", ".backend", ".seed", ".leftOut", ".notHere", ".cell", ".nemesis", ".why", ".run ", ".failed", "soak/summary.json", "soak/soak.ndjson", `"violated"`} {
		for i := 0; ; i++ { // each place where it stands in a program, by itself
			other, there := renamed(workflow, name, i)
			if !there {
				if i == 0 {
					t.Errorf("the workflow does not read %s any more", name)
				}
				break
			}
			if wrong, _ := misread(other, files); len(wrong) == 0 {
				t.Errorf("nobody would tell that %s has another name, at its place %d", name, i+1)
			}
		}
	}
}

// renamed is the workflow with another name at the i-th place where name stands in a program of jq, or behind one.
func renamed(workflow, name string, i int) (other string, there bool) {
	for _, p := range jqProgram.FindAllStringIndex(workflow, -1) {
		for at := p[0]; ; {
			next := strings.Index(workflow[at:p[1]], name)
			if next < 0 {
				break
			}
			at += next + len(name)
			if i--; i < 0 {
				end := at - len(name) + len(strings.TrimRight(name, ` "`))
				return workflow[:end] + "x" + workflow[end:], true
			}
		}
	}
	return "", false
}

// What make takes of a soak that is given nothing is all there is; a mix is run only where it is asked for.
func TestTheNightlySoakLeavesNothingOutAndRunsMixes(t *testing.T) {
	_, line, _ := strings.Cut(nightly(t), "run: make soak ")
	line, _, _ = strings.Cut(line, "\n")
	if !regexp.MustCompile(`(^| )MIXES=[1-9]`).MatchString(line) {
		t.Errorf("it runs no mix: %s", line)
	}
	for _, v := range []string{"NEMESIS", "BACKEND", "WORKLOAD", "ROUNDS"} {
		if strings.Contains(line, v+"=") {
			t.Errorf("%s leaves something out: %s", v, line)
		}
	}
}
