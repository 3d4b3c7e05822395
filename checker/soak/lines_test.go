package soak

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestALineThatLeadsElsewhereOrHasNoStatusIsRefusedBeforeAnythingIsRemoved(t *testing.T) {
	const good = `{"nemesis":"pause","backend":"pg","workload":"lock","with":"pause","seed":"1","run":"20260101T000000.000Z-lock-pg-pause-1","status":"pass"}`
	for says, spoilt := range map[string]string{
		`"" is no run's name`:                           strings.Replace(good, "20260101T000000.000Z-lock-pg-pause-1", "", 1),
		`"../.." is no run's name`:                      strings.Replace(good, "20260101T000000.000Z-lock-pg-pause-1", "../..", 1),
		`"20260101T000000.000Z-/../.." is no run's`:     strings.Replace(good, "Z-lock-pg-pause-1", "Z-/../..", 1),
		`"fine" is no status of a run`:                  strings.Replace(good, `"pass"`, `"fine"`, 1),
		`"" is no status of a run`:                      strings.Replace(good, `,"status":"pass"`, "", 1),
		`"runs" is no run's name`:                       strings.Replace(good, `"run":"20260101T000000.000Z-lock-pg-pause-1","status":"pass"`, `"run":"runs","failed":"no space"`, 1),
		`"odd" is no status of a run`:                   strings.Replace(good, `"status":"pass"`, `"status":"odd","failed":"no space"`, 1),
		`nemesis cannot be a number; restore the line`:  strings.Replace(good, `"pause"`, `3`, 1),
		`-1 is no seed, which are whole numbers from 0`: strings.Replace(good, `"1"`, `-1`, 1),
		`x is no seed, which are whole numbers from 0`:  strings.Replace(good, `"1"`, `"x"`, 1),
	} {
		f := folderOf(t, nil, ran("pause", 1, "violated"))
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.Dir, linesFile), []byte(good+"\n"+spoilt+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := open(f.Dir, Settings{}, nil, nil, Session{}, 0)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "soak.ndjson of the soak in "+f.Dir+": line 2: ") {
			t.Errorf("%s: %v", spoilt, err)
		}
		if !f.whole(ran("pause", 1, "violated").Run) {
			t.Errorf("%s: the run of another line is gone", spoilt)
		}
	}
	failed := strings.Replace(good, `"run":"20260101T000000.000Z-lock-pg-pause-1","status":"pass"`, `"run":"","status":"","failed":"no space"`, 1)
	if lines, err := parse([]byte(good + "\n" + failed + "\n")); err != nil || len(lines) != 2 {
		t.Errorf("%v, %v", lines, err)
	}
}

func TestWhatIsNoRunsFolderOrIsInUseIsNotSweptAway(t *testing.T) {
	f := folderOf(t, nil)
	notes, going := filepath.Join(f.Dir, runsDir, "notes"), filepath.Join(f.Dir, runsDir, "20260101T000000.000Z-lock-pg-pause-1")
	for _, dir := range []string{notes, going} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mark, err := os.Create(filepath.Join(going, ".in-use"))
	if err == nil {
		err = syscall.Flock(int(mark.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.untold(0); !errors.Is(err, ErrInUse) {
		t.Errorf("a run that is going on: %v", err)
	}
	if _, err := os.Stat(going); err != nil {
		t.Errorf("the run that is going on is gone: %v", err)
	}
	if err := mark.Close(); err != nil {
		t.Fatal(err)
	}
	over, err := f.untold(0)
	if err := errors.Join(err, f.sweepAway(over)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(going); !os.IsNotExist(err) {
		t.Errorf("a run that has ended is still there: %v", err)
	}
	if _, err := os.Stat(notes); err != nil {
		t.Errorf("what is no run is gone: %v", err)
	}
}

func TestAViolationThatNoLineTellsOfIsKeptAndGetsItsLine(t *testing.T) {
	f := folderOf(t, nil)
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"20260101T000000.000Z-lock-pg-pause-1":        `{"id":"20260101T000000.000Z-lock-pg-pause-1","exit":0,"overall":"pass","settings":{"nemesis":"pause","workload":"lock","backend":"pg","seed":"1"}}`,
		"20260101T000000.000Z-lock-pg-pause-2":        `{"id":"20260101T000000.000Z-lock-pg-pause-2","exit":0,"overall":"violated","expect":{"must":["INV-04"],"met":true},"settings":{"nemesis":"pause","workload":"lock","backend":"pg","seed":"2"}}`,
		"20260101T000000.000Z-lock-pg-pause-3":        `{"id":"20260101T000000.000Z-lock-pg-pause-3","exit":1,"overall":"violated","settings":{"nemesis":"pause","workload":"lock","backend":"pg","seed":"3"}}`,
		"20260101T000000.000Z-payout-etcd-kill+pause": `{"id":"20260101T000000.000Z-payout-etcd-kill+pause","exit":1,"overall":"violated","settings":{"nemesis":"kill,pause","workload":"payout","backend":"etcd","seed":"4"}}`,
		"20260101T000000.000Z-payout-pg-kill+slow-5":  `{"id":"20260101T000000.000Z-payout-pg-kill+slow-5","exit":1,"overall":"violated","settings":{"nemesis":"kill,slow","workload":"payout","backend":"pg","seed":"5"}}`,
	} {
		dir := filepath.Join(f.Dir, runsDir, name)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "history"), 0o755), os.WriteFile(filepath.Join(dir, "verdict.json"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := open(f.Dir, Settings{}, []Cell{{"pause", "pg", "lock"}, {"pause+kill", "etcd", "payout"}, {MixOfTwo, "pg", "payout"}}, nil, Session{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	var keys []string
	for _, l := range f.Lines {
		keys = append(keys, l.key())
		if l.Status != "violated" || !f.whole(l.Run) {
			t.Errorf("%+v", l)
		}
	}
	if want := []string{"pause|pause|pg|lock|3", "pause+kill|pause,kill|etcd|payout|4", "mix of two|kill,slow|pg|payout|5"}; !slices.Equal(keys, want) {
		t.Errorf("told are %q, want %q", keys, want)
	}
	if left, err := os.ReadDir(filepath.Join(f.Dir, runsDir)); err != nil || len(left) != 3 {
		t.Errorf("it left %v (%v)", left, err)
	}
	if again, err := Read(f.Dir); err != nil || len(again.Lines) != 3 {
		t.Errorf("%v, %+v", err, again)
	}
}

func TestARunWhoseVerdictCannotBeReadIsNotSweptAway(t *testing.T) {
	f := folderOf(t, nil)
	dir := filepath.Join(f.Dir, runsDir, "20260101T000000.000Z-lock-pg-pause-1")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "verdict.json"), []byte("{"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := f.sweepAway([]string{filepath.Base(dir)}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// everything is what lies in dir, with its content.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all[path] = "a folder"
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestARefusedStartChangesNothingInTheFolder(t *testing.T) {
	for name, c := range map[string]struct {
		goesOn bool // the last run
		build  string
		why    error
	}{"a run is going on": {true, "", ErrInUse}, "it has other programs": {false, "another", ErrOtherBuild}} {
		t.Run(name, func(t *testing.T) {
			f := folderOf(t, nil, ran("pause", 1, "inconclusive"))
			if _, err := f.file.WriteString(`{"torn`); err != nil {
				t.Fatal(err)
			}
			over, going := filepath.Join(f.Dir, runsDir, "20260101T000000.000Z-lock-pg-pause-1"), filepath.Join(f.Dir, runsDir, "20260101T000000.000Z-lock-pg-pause-2")
			if err := errors.Join(os.Mkdir(over, 0o755), os.Mkdir(going, 0o755), os.Remove(filepath.Join(f.Dir, outputDir)), f.close()); err != nil {
				t.Fatal(err)
			}
			mark, err := os.Create(filepath.Join(going, ".in-use"))
			if err != nil {
				t.Fatal(err)
			}
			defer mark.Close()
			if c.goesOn {
				if err := syscall.Flock(int(mark.Fd()), syscall.LOCK_EX); err != nil {
					t.Fatal(err)
				}
			}
			before := everything(t, f.Dir)
			if _, err := open(f.Dir, Settings{Rounds: 9}, nil, nil, Session{Build: c.build}, 0); !errors.Is(err, c.why) {
				t.Errorf("want %v: %v", c.why, err)
			}
			if after := everything(t, f.Dir); !reflect.DeepEqual(after, before) {
				t.Errorf("it was\n%v\nand is\n%v", before, after)
			}
		})
	}
}

func TestASeedIsAStringInEveryFileAndOneThatWasANumberIsStillRead(t *testing.T) {
	f := folderOf(t, nil, ran("pause", math.MaxUint64, "pass"))
	f.head.Settings.FirstSeed = math.MaxUint64
	if err := writeJSON(filepath.Join(f.Dir, settingsFile), f.head); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Summarise(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{settingsFile, linesFile, summaryFile} {
		if text, err := os.ReadFile(filepath.Join(f.Dir, file)); err != nil || !strings.Contains(string(text), `"18446744073709551615"`) {
			t.Errorf("%s (%v):\n%s", file, err, text)
		}
	}
	again, err := Read(f.Dir)
	if err != nil || again.Settings().FirstSeed != math.MaxUint64 {
		t.Errorf("%v, %+v", err, again)
	}
	var x Summary
	for _, seeds := range []string{`["7","18446744073709551615"]`, `[7,18446744073709551615]`} {
		if err := json.Unmarshal([]byte(`{"schema":1,"cells":[{"nemesis":"pause","seeds":`+seeds+`}]}`), &x); err != nil || !slices.Equal(x.Cells[0].Seeds, Seeds{7, math.MaxUint64}) {
			t.Errorf("%s: %v, %+v", seeds, err, x.Cells)
		}
	}
	if err := json.Unmarshal([]byte(`{"cells":[{"seeds":["-1"]}]}`), &x); err == nil {
		t.Errorf("%+v is taken", x.Cells)
	}
	var s Settings
	if err := json.Unmarshal([]byte(`{"rounds":3,"firstSeed":7}`), &s); err != nil || s.FirstSeed != 7 || s.Rounds != 3 {
		t.Errorf("%v, %+v", err, s)
	}
}

func TestAsManyMixesAsAreAskedForMustExistAndTheOrderOfAMixMeansNothing(t *testing.T) {
	for says, s := range map[string]Settings{
		"--mixes 3: of pause, slow, kill with payout on pg there are 2 mixes of two": {Nemeses: []string{"pause", "slow", "kill+pause"}, Mixes: 3},
		"--mixes 1: --nemesis none has no two nemeses to mix":                        {Nemeses: []string{"none"}, Mixes: 1},
	} {
		s.Backends, s.Workloads = []string{"pg"}, []string{"payout"}
		if _, _, err := s.Cells(all); err == nil || err.Error() != says {
			t.Errorf("want %s: %v", says, err)
		}
		if s.Mixes--; s.Mixes > 0 {
			if _, _, err := s.Cells(all); err != nil {
				t.Errorf("%d mixes: %v", s.Mixes, err)
			}
		}
	}
}

func TestARunThatTwoFoldersHaveOfTheSameBuildCountsOnceAndAsTheWorse(t *testing.T) {
	for commit, want := range map[string]int{"0123456789ab": 2, "0123456789ab with changes": 4, "": 4} {
		one := folderOf(t, nil, ran("pause", 1, "pass"), ran("pause", 2, "pass"))
		two := folderOf(t, nil, ran("pause", 1, "violated"), ran("pause", 2, "pass"))
		one.head.Sessions, two.head.Sessions = []Session{{Commit: commit}}, []Session{{Commit: commit}}
		for _, s := range []*Summary{Summarise(one, two), Summarise(two, one)} {
			if s.Counts.Runs != want || s.Counts.Violated != 1 || s.Repeated != 4-want {
				t.Errorf("commit %q: %+v, %d repeated", commit, s.Counts, s.Repeated)
			}
		}
		two.head.Sessions[0].Commit = "ba9876543210"
		if s := Summarise(one, two); s.Counts.Runs != 4 {
			t.Errorf("commits %q and another: %+v", commit, s.Counts)
		}
	}
}

func TestRunsThatDifferInTheirDriveTheirMembersOrTheirProgramsAreNotTheSame(t *testing.T) {
	on := func(backend string, drive time.Duration, members int, session Session) *Folder {
		l := ran("pause", 1, "pass")
		l.Backend = backend
		f := folderOf(t, nil, l)
		f.head.Settings.Drive, f.head.Settings.Members, f.head.Sessions = drive, members, []Session{session}
		return f
	}
	clean, dirty := Session{Commit: "0123456789ab", Build: "one"}, Session{Commit: "0123456789ab" + changed, Build: "one"}
	other := Session{Commit: "0123456789ab", Build: "other"}
	for name, c := range map[string]struct {
		a, b *Folder
		runs int
	}{
		"alike":                         {on("etcd", time.Second, 3, clean), on("etcd", time.Second, 3, clean), 1},
		"another drive":                 {on("etcd", time.Second, 3, clean), on("etcd", time.Minute, 3, clean), 2},
		"more members":                  {on("etcd", time.Second, 1, clean), on("etcd", time.Second, 3, clean), 2},
		"one member, and the default":   {on("etcd", time.Second, 0, clean), on("etcd", time.Second, 1, clean), 1},
		"members that pg does not have": {on("pg", time.Second, 1, clean), on("pg", time.Second, 3, clean), 1},
		"other programs of one commit":  {on("pg", time.Second, 0, clean), on("pg", time.Second, 0, other), 2},
		"the same with changes":         {on("pg", time.Second, 0, dirty), on("pg", time.Second, 0, dirty), 1},
	} {
		if s := Summarise(c.a, c.b); s.Counts.Runs != c.runs || s.Repeated != 2-c.runs {
			t.Errorf("%s: %d runs count, want %d", name, s.Counts.Runs, c.runs)
		}
	}
}

func TestTheMatrixIsPutIntoTheDocumentThatALinkNamesAndItKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	doc, link := filepath.Join(dir, "doc.md"), filepath.Join(dir, "link.md")
	if err := errors.Join(os.WriteFile(doc, []byte(begins+ends), 0o600), os.Symlink("doc.md", link)); err != nil {
		t.Fatal(err)
	}
	if err := Summarise(folderOf(t, nil, ran("pause", 1, "pass"))).WriteInto(link); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(doc)
	if err != nil || !strings.Contains(string(text), "### pause") {
		t.Errorf("%v; the document is %s", err, text)
	}
	if is, err := os.Lstat(doc); err != nil || is.Mode() != 0o600 {
		t.Errorf("the document is %v (%v)", is.Mode(), err)
	}
	if is, err := os.Lstat(link); err != nil || is.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v (%v)", is.Mode(), err)
	}
}
