package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/run"
	"fenceproof/checker/sweep"
	"fenceproof/checker/verdict"
	"fenceproof/nemesis/plan"
)

// The lock's half of the sweep alone: the command runs both, in more time than a test has.
func TestEveryLockEndpointIsCarriedOutAsOftenAsTheTableSays(t *testing.T) {
	t.Parallel()
	r := start(t, "--workload", "lock", "--nemesis", "sweep", "--seed", "3", "--duration", "8s")
	if got := r.wait(); got != 0 {
		t.Errorf("exit status %d", got)
	}
	awaitNobody(t, r.folder())
	table, err := sweep.Read(run.HistoryDir(r.folder()))
	if err != nil {
		t.Fatal(err)
	}
	met := 0
	for _, c := range table.Cells {
		switch {
		case c.Met == 0: // the operator has to wait for what does not come, and the drive is short
		case !c.Good():
			t.Errorf("%s under %s: %+v", c.Op, c.Fault, *c)
		default:
			met++
		}
	}
	if len(table.Cells) != 8*3 || met < 6*3 {
		t.Errorf("%d of %d cells were met:\n%s", met, len(table.Cells), table.Markdown())
	}
}

func TestASweepRefusesADocumentWithoutAPlaceForTheTableBeforeItRunsAnything(t *testing.T) {
	dir := t.TempDir()
	doc := filepath.Join(dir, "doc.md")
	if err := os.WriteFile(doc, []byte("no place\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--doc", doc}, "it has no lines"},
		{[]string{"--doc", filepath.Join(dir, "another.md")}, "read the document"},
		{[]string{"--backend", "pgg"}, `did you mean "pg"?`},
		{[]string{"--etcd-members", "3"}, "etcdMembers is 3, and the backend is pg"},
	} {
		out, status := fenceproof(t, append([]string{"sweep", "--runs", dir}, c.args...)...)
		if status != exitUsage || !strings.Contains(out, c.says) {
			t.Errorf("%v: status %d: %s", c.args, status, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it left %v (%v)", left, err)
	}
}

func TestTheExitStatusOfASweepIsThatOfItsWorstCell(t *testing.T) {
	good := &sweep.Cell{Op: "claim", Fault: plan.Drop, Met: 1, Requests: 1, Due: 1, Effects: 1, Least: 1, Most: 1}
	twice, unmet := *good, *good
	twice.Effects, unmet.Met = 2, 0
	for want, cells := range map[int][]*sweep.Cell{verdict.ExitPass: {good}, verdict.ExitOpen: {good, &unmet}, verdict.ExitViolated: {&unmet, &twice, good}} {
		if got := exitOfTable(&sweep.Table{Cells: cells}); got != want {
			t.Errorf("exit status %d, want %d", got, want)
		}
	}
}
