package main

import (
	"errors"
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// events reads a run's history.
func events(t *testing.T, folder string, observe func(*history.Event)) {
	t.Helper()
	r, err := history.Open(filepath.Join(folder, "history"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		var e history.Event
		switch err := r.Next(&e); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		}
		observe(&e)
	}
}

// Without a majority a member says that it does not know; what it must not say is that somebody has lost a key. INV-06 and
// LIN-01 look after that: every LOCK_LOST needs an end of the grant before it. INV-04 looks after the tokens.
func TestALeaderThatIsCutOffLeadsToAnotherWhoseTokensGoOn(t *testing.T) {
	r := start(t, "--plan", filepath.Join("testdata", "leader-apart.json"))
	if got := r.wait(); got != 0 {
		t.Fatalf("exit status %d", got)
	}
	if v := r.verdict(); v.Overall != verdict.Pass {
		t.Errorf("overall %s: %s", v.Overall, v.Reason)
	}
	var apart, unsure, meanwhile, after int
	links := map[string]bool{}
	healed := false
	events(t, r.folder(), func(e *history.Event) {
		switch {
		case e.W == history.Nemesis && e.Phase == "seen":
			apart++
			links[e.Target] = true
		case e.W == history.Nemesis && e.Phase == "healed":
			healed = true
		case e.W != history.Wiretap || e.Stage != history.Answered:
		case e.Code == contract.NotLeader && apart > 0:
			unsure++
		case e.Op == contract.OpAcquire && e.Granted > 0:
			switch {
			case healed:
				after++
			case apart > 0:
				meanwhile++
			}
		}
	})
	if apart != 4 || len(links) != 4 || unsure == 0 || meanwhile == 0 || after == 0 {
		t.Errorf("%d links were cut, NOT_LEADER was answered %d times, and %d keys were granted meanwhile and %d afterwards", apart, unsure, meanwhile, after)
	}
}

func TestAHarnessThatIsInterruptedWhileLinksAreBrokenHealsThem(t *testing.T) {
	t.Parallel()
	r := start(t, "--plan", filepath.Join("testdata", "links-broken.json"))
	r.awaitLine("now ")
	signalTo(t, r, syscall.SIGINT)
	if status := r.wait(); status == -1 {
		t.Errorf("exit status %d", status)
	}
	awaitNobody(t, r.folder())
	seen, healed := 0, 0
	events(t, r.folder(), func(e *history.Event) {
		switch {
		case e.W == history.Nemesis && e.Phase == "seen":
			seen++
		case e.W == history.Nemesis && e.Phase == "healed":
			healed++
		}
	})
	if seen == 0 || healed != seen {
		t.Errorf("%d links were broken and %d healed", seen, healed)
	}
}

func TestPartitionsSlowLinksAndResetsBreakNothing(t *testing.T) {
	for name, args := range map[string][]string{
		"partition of payouts":         {"--nemesis", "partition", "--seed", "4", "--duration", "8s"},
		"slow links of payouts":        {"--nemesis", "slow", "--seed", "4", "--duration", "8s"},
		"partition of locks on etcd-3": {"--nemesis", "partition", "--workload", "lock", "--backend", "etcd", "--etcd-members", "3", "--seed", "4", "--duration", "8s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, args...)
			if got := r.wait(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			seen := map[contract.Op]int{}
			events(t, r.folder(), func(e *history.Event) {
				if e.W == history.Nemesis && e.Phase == "seen" {
					seen[e.Op]++
				}
				if e.W == history.Nemesis && e.Phase == "failed" {
					t.Errorf("%s on %s: %s", e.Op, e.Target, e.Msg)
				}
			})
			if len(seen) == 0 {
				t.Error("nothing was broken")
			}
		})
	}
}
