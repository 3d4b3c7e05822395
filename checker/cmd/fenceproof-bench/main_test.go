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

func TestTheLocksBenchmarkIsReadAndJudged(t *testing.T) {
	const text = "BenchmarkPairs/own_keys_16-2   1  40125100230 ns/op  6686 pg-http:pairs/s  7777 pg-store:pairs/s  1500 pg-store:p50-us " +
		" 500 etcd-http:pairs/s  1000 etcd-store:pairs/s  12.5 etcd-mutex:p99.9-us\n" +
		"BenchmarkPairs/own_keys_64-2   1  40125100230 ns/op  6686 pg-http:pairs/s\n"
	got, err := pairs(text, "own_keys_16")
	if err != nil || got["pg-http"]["pairs/s"] != 6686 || got["pg-store"]["p50-us"] != 1500 || got["etcd-mutex"]["p99.9-us"] != 12.5 || len(got) != 5 {
		t.Errorf("%v, %v", got, err)
	}
	page := section{head: []string{"what", "pairs/s", "p50", "p99", "p99.9", "bar", ""}, rows: lockRows("own_keys_16", "16 clients", got)}.markdown()
	for _, want := range []string{"| PostgreSQL: HTTP ÷ directly | 0.86 |  |  |  | ≥ 0.6 | met |", "| etcd: HTTP ÷ directly | 0.50 |  |  |  | ≥ 0.6 | **missed** |",
		"| PostgreSQL: on the store directly | 7777 | 1.50 ms |", "|---|---|---|---|---|---|---|\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "waiting") {
		t.Errorf("the page has a side that was not measured:\n%s", page)
	}
	for _, missing := range []string{"hot_key_16", "own_keys_1", "own_keys_64"} {
		if got, err := pairs(text, missing); err == nil {
			t.Errorf("%s: numbers that are not there were read: %v", missing, got)
		}
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, args := range [][]string{{"-only", "fold"}, {"folds"}, {"-rounds", "x"}, {"-rounds", "0"}, {"-events", "-1"}, {"-open", "0"}, {"-measure", "0s"}} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v", args, err)
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
