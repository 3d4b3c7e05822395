// Package fenceproof_test holds the tests of the house itself: which folder may import which.
package fenceproof_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "fenceproof/"

// An arrow may point only where this table says; a folder that is not in it imports nothing of the module. The longest
// matching folder decides. Test files may also import what testArrows says.
var arrows = map[string][]string{
	"migrations":             {},
	"system/lock":            {},
	"system/lock/pgstore":    {"system"},
	"system/lock/etcdstore":  {"system"},
	"system/lock/locktest":   {"system"},
	"system/lock/lockserver": {"system"},
	"system/lock/lockclient": {"system"},
	"system":                 {"system", "migrations"},
	"deploy":                 {"deploy"},
	"checker/contract":       {},
	"checker/history":        {"checker/contract"},
	"checker/verdict":        {"checker/contract", "checker/history"},
	"checker/reissue":        {"checker/contract", "checker/history"},
	"checker/synthetic":      {"checker/contract", "checker/history"},
	"checker/wiretap":        {"checker/contract", "checker/history"},
	"checker/witness":        {"checker/contract", "checker/history"},
	"checker/invariant":      {"checker/contract", "checker/history", "checker/verdict", "checker/reissue"},
	"checker/golden":         {"checker"},
	"checker/edn":            {},
	"checker/jepsen":         {"checker/contract", "checker/history", "checker/verdict", "checker/linear", "checker/edn"},
	"checker/linear":         {"checker/contract", "checker/history", "checker/verdict"},
	"nemesis/plan":           {"checker/contract"},
	"nemesis":                {"nemesis", "checker/contract", "checker/history"},
	"workloads":              {"checker/contract", "checker/history"},
	"reports":                {"reports", "checker/contract", "checker/history", "checker/verdict", "checker/reissue"},
	"checker/run":            {"checker", "nemesis", "workloads", "reports", "deploy"},
	"checker/mutant":         {"checker", "nemesis"},
	"checker/replay":         {"checker", "nemesis"},
	"checker/doctor":         {"deploy"},
	"checker/sweep":          {"nemesis", "checker/contract", "checker/history"},
	"checker/soak":           {"checker", "nemesis", "reports"},
	"checker/cmd":            {"checker", "nemesis", "workloads", "reports", "deploy"},
}

// judgedByTests are the arrows of test files that make histories up, and of those that judge such a history.
var judgedByTests = map[string][]string{
	"checker/synthetic": {"checker/invariant", "checker/verdict"},
	"checker/invariant": {"checker/synthetic"},
	"reports":           {"checker/synthetic", "checker/invariant"},
	"checker/jepsen":    {"checker/synthetic"},
}

// testArrows are further arrows of test files: every test starts real databases, and the system's tests apply its
// migrations.
var testArrows = []string{"deploy", "migrations"}

type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestNoArrowPointsWhereTheHouseForbidsIt(t *testing.T) {
	out, err := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		t.Fatalf("list the packages: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	seen := 0
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == strings.TrimSuffix(module, "/") {
			continue // this file
		}
		seen++
		from := strings.TrimPrefix(p.ImportPath, module)
		allowed := allowedFrom(from)
		for _, to := range p.Imports {
			check(t, from, to, allowed)
		}
		for _, to := range slices.Concat(p.TestImports, p.XTestImports) {
			check(t, from, to, slices.Concat(allowed, testArrows, judgedByTests[from], []string{from}))
		}
	}
	if seen < 20 {
		t.Fatalf("only %d packages were looked at", seen)
	}
}

func check(t *testing.T, from, to string, allowed []string) {
	t.Helper()
	to, ours := strings.CutPrefix(to, module)
	if !ours {
		return
	}
	if !slices.ContainsFunc(allowed, func(a string) bool { return to == a || strings.HasPrefix(to, a+"/") }) {
		t.Errorf("%s imports %s; it may import %v", from, to, allowed)
	}
}

func allowedFrom(from string) []string {
	best := ""
	for folder := range arrows {
		if (from == folder || strings.HasPrefix(from, folder+"/")) && len(folder) > len(best) {
			best = folder
		}
	}
	return arrows[best]
}

func TestTheTopLevelFoldersAreThoseOfTheHouse(t *testing.T) {
	want := []string{"checker", "deploy", "docs", "migrations", "nemesis", "reports", "system", "workloads"}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), ".")
		ignored := e.Name() == "runs" || e.Name() == "bin"
		if e.IsDir() && !hidden && !ignored && !slices.Contains(want, e.Name()) {
			t.Errorf("folder %s is not part of the house", e.Name())
		}
	}
}
