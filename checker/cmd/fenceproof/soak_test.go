package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fenceproof/checker/soak"
	"fenceproof/checker/verdict"
)

// killed starts a soak into dir, kills it while its first run is driven, and sees that the run went with it.
func killed(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "fenceproof"), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		awaitNobody(t, dir)
	})
	for deadline := time.Now().Add(patience); ; {
		if seen, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "history", "nemesis.ndjson")); len(seen) > 0 {
			if log, _ := os.ReadFile(seen[0]); bytes.Contains(log, []byte(`"seen"`)) {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no run came to its drive")
		}
		time.Sleep(50 * time.Millisecond) // the pause between two looks at the condition
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	ended = true
	awaitNobody(t, dir)
}

func TestASoakThatIsKilledLeavesNothingAndGoesOnToASummaryThatIsTrue(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "soak")
	killed(t, dir, "soak", "--rounds", "1", "--nemesis", "revoke", "--backend", "pg", "--workload", "lock", "--drive", "6s", "--into", dir)
	left, err := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("the killed soak left %v (%v)", left, err)
	}
	if _, err := os.Stat(filepath.Join(left[0], "verdict.json")); !os.IsNotExist(err) {
		t.Errorf("the run outlived the soak and came to a verdict: %v", err)
	}
	out, status := fenceproof(t, "soak", "summary", dir)
	if want := "NOT EXERCISED: no run has come to its end; 1 run was begun and not brought to its end: fenceproof soak --into " + dir + " judges it\n"; status != 2 || !strings.Contains(out, want) {
		t.Errorf("of the killed soak its summary says, with exit status %d:\n%s", status, out)
	}
	out, status = fenceproof(t, "soak", "--into", dir)
	if status != 0 {
		t.Fatalf("it went on to exit status %d:\n%s", status, out)
	}
	awaitNobody(t, dir)
	if _, err := os.Stat(left[0]); !os.IsNotExist(err) {
		t.Errorf("what the killed soak left is still there: %v", err)
	}
	f, err := soak.Read(dir)
	if err != nil || len(f.Lines) != 1 {
		t.Fatalf("%v; the lines are %+v", err, f.Lines)
	}
	l := f.Lines[0]
	v, err := verdict.Read(filepath.Join(dir, "runs", l.Run))
	if err != nil || v.Overall != l.Status || v.Settings.Nemesis != "revoke" || v.Settings.Drive != 6*time.Second || v.Settings.Seed != 1 || l.Memory == 0 || l.Disk == 0 {
		t.Errorf("%v; the run is %+v, its line %+v", err, v, l)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "runs", l.Run)); err != nil || len(entries) != 1 {
		t.Errorf("of a run that passed %v is kept (%v)", entries, err)
	}
	t.Run("and nothing is done twice", func(t *testing.T) {
		if out, status := fenceproof(t, "soak", "--into", dir); status != 0 || !strings.Contains(out, "not done again: 1 run") || !strings.Contains(out, "PASS: 1 run passed") {
			t.Errorf("exit status %d:\n%s", status, out)
		}
	})
	t.Run("and the matrix comes from the folder alone", func(t *testing.T) { matrixFrom(t, dir, l) })
}

func matrixFrom(t *testing.T, dir string, l soak.Line) {
	doc := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(doc, []byte("<!-- matrix begins -->\n<!-- matrix ends -->\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, status := fenceproof(t, "soak", "summary", dir, dir+"/", dir, "--doc", doc); status != 0 {
		t.Fatalf("exit status %d:\n%s", status, out)
	}
	text, err := os.ReadFile(doc)
	if err != nil || !strings.Contains(string(text), "| lock | pg | 1 | 1 | 1 | 0 | 0 / 0 | revocations") {
		t.Errorf("%v; the matrix is\n%s", err, text)
	}
	b, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s soak.Summary
	if err := json.Unmarshal(b, &s); err != nil || s.Status != verdict.Pass || s.Counts.Runs != 1 || len(s.Cells) != 1 || s.Events != l.Events {
		t.Errorf("%v; the summary is %s", err, b)
	}
}

func TestASoakRefusesWhatItCannotDoBeforeItRunsAnything(t *testing.T) {
	dir := t.TempDir()
	into := filepath.Join(dir, "soak")
	if err := os.WriteFile(filepath.Join(dir, "doc.md"), []byte("no place\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, says string
	}{
		{"", "a soak needs an end"},
		{"--rounds 1 --nemesis pauze", `did you mean "pause"?`},
		{"--rounds 1 --nemesis pause+revok", `did you mean "revoke"?`},
		{"--rounds 1 --nemesis pause,pause", "stands there twice"},
		{"--rounds 1 --nemesis pause+kill,kill+pause", "stands there twice"},
		{"--rounds 2 --first-seed 18446744073709551615", "take at most 18446744073709551614"},
		{"--rounds 1 --nemesis none+pause", "nemesis none stands alone"},
		{"--rounds 1 --backend pgg", `did you mean "pg"?`},
		{"--rounds 1 --workload locks", `did you mean "lock"?`},
		{"--rounds 1 --etcd-members 2", "payout on etcd cannot be run: etcdMembers is 2"},
		{"--rounds 1 --drive 5h", "--drive is 5h0m0s; at least 1s, at most 1h0m0s"},
		{"--rounds 1 --drive 1ms", "--drive is 1ms; at least 1s, at most 1h0m0s"},
		{"--rounds 1 --drive -1s", "--drive is -1s; at least 1s, at most 1h0m0s"},
		{"--rounds 1 --etcd-members 3 --backend pg", "--etcd-members 3: no backend of these runs is etcd, which has 1, 3 or 5"},
		{"--rounds 1 --etcd-members 2 --backend pg", "--etcd-members 2: no backend of these runs is etcd, which has 1, 3 or 5"},
		{"--rounds 1 --jobs 0", "--jobs 0"},
		{"--rounds 1 --nemesis revoke --mixes 1", "--nemesis revoke has no two nemeses to mix"},
		{"--roundz 1", "did you mean --rounds?"},
		{"--rounds 1 --doc " + filepath.Join(dir, "doc.md"), "it has no lines"},
		{"sumary", `did you mean "summary"?`},
	} {
		args := append([]string{"soak", "--into", into}, strings.Fields(c.args)...)
		if out, status := fenceproof(t, args...); status != exitUsage || !strings.Contains(out, c.says) {
			t.Errorf("%s: status %d: %s", c.args, status, out)
		}
	}
	if out, status := fenceproof(t, "soak", "--rounds", "1", "--into", dir); status != exitUsage || !strings.Contains(out, "no soak is in it") {
		t.Errorf("status %d: %s", status, out)
	}
	if out, status := fenceproof(t, "soak", "--rounds", "1", "--jobs", "0", "--into", ""); status != exitUsage || !strings.Contains(out, "--into needs the folder") {
		t.Errorf("an empty --into, as of a variable that is not set: status %d: %s", status, out)
	}
	file := filepath.Join(dir, "doc.md")
	for _, args := range [][]string{{"soak", "--rounds", "1", "--into", file}, {"soak", "summary", file}, {"clean", "--runs", file}} {
		if out, status := fenceproof(t, args...); status != exitUsage {
			t.Errorf("%v: status %d: %s", args, status, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it left %v (%v)", left, err)
	}
}

func TestASoakIsContinuedWithTheRunsThatItBeganWithOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	settings := filepath.Join(dir, "soak.json")
	begun := `{"schema":1,"settings":{"nemeses":["pause"],"backends":["etcd"],"workloads":["lock"],"firstSeed":1,"rounds":1,"drive":9000000000,"jobs":1}}`
	for _, c := range []struct {
		settings, args, says string
	}{
		{begun, "soak --drive 8s", "--drive 8s: the soak in " + dir + " drives its runs for 9s"},
		{strings.Replace(begun, "}}", `},"sessions":[{"build":"another"}]}`, 1), "soak", "it was begun with other programs: begin another soak in a new folder"},
		{begun, "soak --etcd-members 3", "--etcd-members 3: the soak in " + dir + " has 1"},
		{"{", "soak --rounds 1", "soak.json"},
		{"{", "soak summary", "soak.json"},
	} {
		if err := os.WriteFile(settings, []byte(c.settings), 0o644); err != nil {
			t.Fatal(err)
		}
		args := strings.Fields(c.args)
		if args = append(args, "--into", dir); args[1] == "summary" {
			args = []string{"soak", "summary", dir}
		}
		if out, status := fenceproof(t, args...); status != exitUsage || !strings.Contains(out, c.says) {
			t.Errorf("%s: status %d: %s", c.args, status, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it left %v (%v)", left, err)
	}
}

func TestAFolderWithAPartOfASoakOrWithAPipeInItIsRefused(t *testing.T) {
	for says, spoil := range map[string]func(dir string) error{
		"has soak.ndjson and no soak.json, so what it runs is not known: put its soak.json back, or begin another soak in a new folder": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "soak.ndjson"), []byte("{}\n"), 0o644)
		},
		"soak.json is no regular file": func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "soak.json"), 0o644) },
	} {
		dir := t.TempDir()
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"soak", "summary", dir}, {"soak", "--rounds", "1", "--into", dir}} {
			if out, status := fenceproof(t, args...); status != exitUsage || !strings.Contains(out, says) {
				t.Errorf("%v: status %d: %s", args, status, out)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("it left %v (%v)", left, err)
		}
	}
}

// The verdict of a run counts whatever failed behind it, and no run takes the place of it.
func TestASummarysStatusIsThatOfTheVerdictsWhateverFailedBehindThem(t *testing.T) {
	const id = "20260101T000000.000Z-payout-pg-pause-1"
	for name, c := range map[string]struct {
		line   soak.Line
		status int
		says   string
	}{
		"behind a pass":       {soak.Line{Run: id, Status: verdict.Pass, Besides: "no room"}, 0, "PASS: 1 run passed; besides, the harness failed in pause, payout on pg, seed 1\n"},
		"behind an open end":  {soak.Line{Run: id, Status: verdict.Inconclusive, Besides: "no room"}, 2, "; besides, the harness failed in"},
		"behind a violation":  {soak.Line{Run: id, Status: verdict.Violated, Besides: "no room"}, 1, "; besides, the harness failed in"},
		"instead of one":      {soak.Line{Failed: "no room"}, exitHarness, "the harness itself failed in pause, payout on pg, seed 1: no room"},
		"behind an interrupt": {soak.Line{Run: id, Failed: "no room"}, exitHarness, "the harness itself failed in"},
		"nowhere":             {soak.Line{Run: id, Status: verdict.Pass}, 0, "PASS: 1 run passed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.line.Cell, c.line.With, c.line.Seed = soak.Cell{Nemesis: "pause", Backend: "pg", Workload: "payout"}, "pause", 1
			line, err := json.Marshal(c.line)
			if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "soak.json"), []byte(`{"schema":1}`), 0o644),
				os.WriteFile(filepath.Join(dir, "soak.ndjson"), append(line, '\n'), 0o644)); err != nil {
				t.Fatal(err)
			}
			if c.line.Status != "" {
				keepVerdict(t, dir, c.line.Run, c.line.Status)
			}
			if out, status := fenceproof(t, "soak", "summary", dir); status != c.status || !strings.Contains(out, c.says) {
				t.Errorf("status %d, want %d:\n%s", status, c.status, out)
			}
		})
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"soak", "summary", "--help"}, "the failure is told beside it and changes no status"},
		{[]string{"soak", "--help"}, "the soak that goes on tells the failure and has the verdict's status"},
	} {
		if out, status := fenceproof(t, c.args...); status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), c.says) {
			t.Errorf("%v does not say that %s:\n%s", c.args, c.says, out)
		}
	}
}

// keepVerdict puts the verdict of a run into the folder of a soak: that of a pause of payouts on pg with seed 1.
func keepVerdict(t *testing.T, dir, id string, s verdict.Status) {
	t.Helper()
	exit, ends := map[verdict.Status]int{verdict.Pass: verdict.ExitPass, verdict.Violated: verdict.ExitViolated}[s]
	if !ends {
		exit = verdict.ExitOpen
	}
	text, err := json.Marshal(verdict.Run{Schema: verdict.SchemaVersion, ID: id, Overall: s, Exit: exit,
		Settings: verdict.Settings{Nemesis: "pause", Workload: "payout", Backend: "pg", Seed: 1}})
	at := filepath.Join(dir, "runs", id)
	if err = errors.Join(err, os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, verdict.FileName), text, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestASummaryLooksAtTheRunsThatItSumsUp(t *testing.T) {
	const id = "20260101T000000.000Z-payout-pg-pause-1"
	dir := t.TempDir()
	line := `{"nemesis":"pause","backend":"pg","workload":"payout","with":"pause","seed":"1","run":"` + id + `","status":"pass"}` + "\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "soak.json"), []byte(`{"schema":1}`), 0o644), os.WriteFile(filepath.Join(dir, "soak.ndjson"), []byte(line), 0o644)); err != nil {
		t.Fatal(err)
	}
	says := func(status int, want string) {
		t.Helper()
		if out, got := fenceproof(t, "soak", "summary", dir); got != status || !strings.Contains(out, want) {
			t.Errorf("status %d, want %d and %q:\n%s", got, status, want, out)
		}
	}
	says(2, "INCONCLUSIVE: 1 run passed; the evidence of 1 run is gone, without which nothing bears the lines out: runs/"+id+"\n")
	keepVerdict(t, dir, id, verdict.Violated)
	says(exitUsage, "says of "+id+": pause, payout on pg, seed 1: pass; its verdict says: pause, payout on pg, seed 1: violated")
	keepVerdict(t, dir, id, verdict.Pass)
	says(0, "PASS: 1 run passed\n")
	killed := strings.Replace(id, "20260101", "20260102", 1) // before its line was written
	keepVerdict(t, dir, killed, verdict.Violated)
	says(1, "VIOLATED: 1 run passed; 1 run was begun and not brought to its end: fenceproof soak --into "+dir+
		" judges it; 1 run of which no line tells has a verdict, and that counts: runs/"+killed+" is violated\n")
	if err := os.RemoveAll(filepath.Join(dir, "runs", killed)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "soak.ndjson")); err != nil {
		t.Fatal(err)
	}
	says(exitUsage, "has soak.json and 1 run, and no soak.ndjson")
	if out, status := fenceproof(t, "soak", "--rounds", "1", "--into", dir); status != exitUsage || !strings.Contains(out, "no soak.ndjson") {
		t.Errorf("it goes on: status %d:\n%s", status, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", id, verdict.FileName)); err != nil {
		t.Error(err)
	}
}

func TestASoakHoldsOnToEveryProgramOfTheSystem(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", "..", "..", "system", "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range entries {
		if e.IsDir() {
			want = append(want, e.Name())
		}
	}
	if have := slices.Sorted(slices.Values(soakFlags{}.options("", nil, nil).Programs)); !slices.Equal(have, want) {
		t.Errorf("a soak holds on to %q; there are %q", have, want)
	}
}

func TestCleanSaysHowManySoaksItLeaves(t *testing.T) {
	runs := t.TempDir()
	for _, says := range []string{"", "1 soak stays in " + runs + "; remove its folder by hand\n", "2 soaks stay in " + runs + "; remove their folders by hand\n"} {
		out, status := fenceproof(t, "clean", "--runs", runs)
		if status != 0 || out != "removed 0 runs from "+runs+"\n"+says {
			t.Errorf("status %d: %s", status, out)
		}
		dir, err := os.MkdirTemp(runs, "soak-")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "soak.json"), []byte("{}"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
