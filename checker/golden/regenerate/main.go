// Command regenerate makes the golden histories and their verdicts anew and compares them with the stored ones. It writes what
// is missing, and overwrites nothing that it was not asked to.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fenceproof/checker/golden"
	"fenceproof/checker/linear"
	"fenceproof/checker/verdict"
)

func main() {
	linear.RunIfAsked()
	replace := flag.String("replace", "", "names of the histories to overwrite where they differ, with commas between them, or all")
	verdicts := flag.Bool("verdicts", false, "leave the histories as they are stored and make the verdicts only")
	dir := flag.String("dir", "checker/golden/testdata", "folder of the stored histories")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Make the golden histories and their verdicts anew. What is missing is written; what differs is named, and overwritten only with -replace.\nExit status: 0 nothing differs, or what does was replaced; 1 something differs; 2 something failed.")
		flag.PrintDefaults()
	}
	flag.Parse()
	differ, err := regenerate(*dir, strings.Split(*replace, ","), *verdicts)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "regenerate:", err)
		os.Exit(2)
	case differ:
		os.Exit(1)
	}
}

// regenerate goes through all histories and tells whether one differs and stays.
func regenerate(dir string, replace []string, verdicts bool) (differ bool, err error) {
	for _, name := range replace {
		known := slices.ContainsFunc(golden.All(), func(g golden.Golden) bool { return g.Name == name })
		if name != "" && name != "all" && !known {
			return false, fmt.Errorf("-replace: there is no golden history %q", name)
		}
	}
	for _, g := range golden.All() {
		stays, err := one(&g, filepath.Join(dir, g.Name), slices.Contains(replace, g.Name) || slices.Contains(replace, "all"), verdicts)
		if err != nil {
			return false, err
		}
		differ = differ || stays
	}
	return differ, nil
}

// one brings one history up to date, and tells whether it differs and stays as it was.
func one(g *golden.Golden, dir string, replace, verdicts bool) (stays bool, err error) {
	made, err := os.MkdirTemp("", "fenceproof-golden-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(made)
	if !verdicts {
		if err := g.Make(made); err != nil {
			return false, err
		}
		there, same, err := golden.Stored(made, dir)
		switch {
		case err != nil:
			return false, err
		case there && !same && !replace:
			fmt.Printf("%s: the history differs from the stored one, which stays; -replace %s overwrites it\n", g.Name, g.Name)
			stays = true
		case !same:
			if err := golden.Store(made, dir); err != nil {
				return false, err
			}
			fmt.Printf("%s: the history was stored\n", g.Name)
		}
	}
	text, err := golden.Judge(dir)
	if err != nil {
		return false, fmt.Errorf("%s: %w", g.Name, err)
	}
	old, err := os.ReadFile(filepath.Join(dir, verdict.FileName))
	switch {
	case err == nil && bytes.Equal(old, text):
		return stays, nil
	case err == nil && !replace:
		fmt.Printf("%s: the verdict differs from the stored one, which stays; -replace %s overwrites it\n", g.Name, g.Name)
		return true, nil
	case err != nil && !os.IsNotExist(err):
		return false, err
	}
	fmt.Printf("%s: the verdict was stored\n", g.Name)
	return stays, golden.StoreVerdict(dir, text)
}
