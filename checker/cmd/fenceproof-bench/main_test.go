package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheFoldsAreMeasuredOnAHistoryOfAnySize(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "fenceproof-bench")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n<!-- measured: folds -->\nnumbers of yesterday\n<!-- end of folds -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bin, "-only", "folds", "-events", "3000", "-rounds", "2", "-o", page).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n<!--", "-->\nafter\n", "| folds, files to verdicts | ", "| peak memory | ", "| folds ÷ only decoding, as rates | ", "load average"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "yesterday") {
		t.Error("the old numbers are still there")
	}
}

func TestAPageWithoutAPlaceForTheNumbersIsLeftAlone(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Benchmarks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replace(page, "folds", "numbers"); err == nil || !strings.Contains(err.Error(), "measured: folds") {
		t.Errorf("got %v", err)
	}
	if text, _ := os.ReadFile(page); string(text) != "# Benchmarks\n" {
		t.Errorf("the page is now %q", text)
	}
}

func TestTheLocksBenchmarkIsRead(t *testing.T) {
	const text = "BenchmarkPairs/16_keys-2   1  40125100230 ns/op  6686 c1+advisory-pairs/s  7777 c1-pairs/s  2796.5 http-pairs/s  6091 store-pairs/s\n"
	got, err := pairs(text, "16_keys")
	if err != nil || got["http"] != 2796.5 || got["store"] != 6091 || got["c1+advisory"] != 6686 || got["c1"] != 7777 || len(got) != 4 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := pairs(text, "one_hot_key"); err == nil {
		t.Error("numbers that are not there were read")
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, args := range [][]string{{"-only", "fold"}, {"folds"}, {"-rounds", "x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestMediansAndNumbersForPeople(t *testing.T) {
	if a, b := median([]float64{3, 1, 2}), median([]float64{4, 1}); a != 2 || b != 2.5 {
		t.Errorf("medians %g and %g", a, b)
	}
	for n, want := range map[int64]string{7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
}
