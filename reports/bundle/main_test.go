package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheCommittedBundleEqualsARebuild(t *testing.T) {
	files, err := bundle(filepath.Join("..", "page"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Fatalf("the bundle has %d files, want report.js and report.css", len(files))
	}
	for path, want := range files {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its sources make: run `go run ./reports/bundle` and commit the result", filepath.Base(path))
		}
	}
}

func TestTheBundleCanStandInsideAPage(t *testing.T) {
	files, err := bundle(filepath.Join("..", "page"))
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		for _, bad := range []string{"</script", "</style", "<!--", "http:", "https:", "url("} {
			if at := strings.Index(strings.ToLower(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")), bad); at >= 0 {
				// url(#…) names a part of the same drawing.
				if rest := string(text); bad == "url(" && !strings.Contains(strings.ReplaceAll(rest, "url(#", ""), "url(") {
					continue
				}
				t.Errorf("%s contains %q: it would end its element or reach outside the page", filepath.Base(path), bad)
			}
		}
	}
}

// Whatever the page shows came from the evidence of a run, so no source may turn text into markup.
func TestNoSourceOfThePageTurnsTextIntoMarkup(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join("..", "page", "*.js"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources found: %v", err)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"} {
			if bytes.Contains(text, []byte(bad)) {
				t.Errorf("%s uses %s", filepath.Base(path), bad)
			}
		}
	}
}
