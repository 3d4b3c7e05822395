package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/deploy/etcd"
	"fenceproof/deploy/etcd/etcdtest"

	"go.etcd.io/etcd/client/v3"
)

func attachEtcd(t *testing.T, p *page, urls ...string) *Etcd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := AttachEtcd(ctx, EtcdConfig{Endpoints: urls, Proc: "etcd"}, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

func (w *Etcd) drained(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestEveryRevisionOfTheLockOnEtcdIsRecordedFromTheFirstOn(t *testing.T) {
	m := etcdtest.Start(t)
	leavesNoGoroutine(t)
	s := openStore(t, m)
	s.open("s", "a")
	token := s.grant("k", "a", "s") // before the witness comes
	p := newPage()
	w := attachEtcd(t, p, m.URL())
	if got := len(p.all(history.OpCommit)); got != 2 {
		t.Fatalf("%d commits were recorded when it was attached, want 2", got)
	}
	s.do(clientv3.OpPut("elsewhere", "x"))
	floor := s.do(clientv3.OpDelete(lockPrefix+"k"), clientv3.OpPut(revocationPrefix+"u", revocationValue("k", token)))
	lease, err := s.Grant(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	s.do(clientv3.OpPut(sessionPrefix+"r", sessionValue("b"), clientv3.WithLease(lease.ID)))
	s.grant("j", "b", "r")
	p.await(t, "of the expiry", func(e history.Event) bool {
		return e.Op == history.OpCommit && brief(e.Changes) == fmt.Sprintf("delete session r/b/2000 >; delete entry j/b/r/%d/3000/0 >", floor+2)
	})
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.keptPlace(t)
	if !p.whole(history.LockDB) {
		t.Error("the history was not completed")
	}
	last := int64(0)
	for _, e := range p.all(history.OpCommit) {
		rev, err := strconv.ParseInt(e.LSN, 10, 64)
		if err != nil || rev <= last || e.Proc != "etcd" || e.Type != contract.OK || e.XID != 0 || e.Committed != 0 {
			t.Errorf("revision %q follows %d: %+v", e.LSN, last, e)
		}
		last = rev
	}
	if got := len(p.all(history.OpCommit)); got != 6 {
		t.Errorf("%d commits were recorded, want 6", got)
	}
}

// A covered time really is covered: whatever was committed before it has been recorded before the watermark is.
func TestAWatermarkOfEtcdCoversOnlyWhatHasBeenRecorded(t *testing.T) {
	m := etcdtest.Start(t)
	s := openStore(t, m)
	p := newPage()
	w := attachEtcd(t, p, m.URL())
	s.open("s", "a")
	type done struct {
		at  int64
		rev int64
	}
	var commits []done
	for n := range 400 {
		rev := s.grant("k"+strconv.Itoa(n%7), "a", "s")
		commits = append(commits, done{p.Now(), rev})
	}
	s.do(clientv3.OpPut("elsewhere", "x")) // the watch never sees this revision
	w.drained(t)
	recorded := map[string]int64{}
	for _, e := range p.all(history.OpCommit) {
		recorded[e.LSN] = e.I
	}
	marks := p.all(history.OpWatermark)
	if len(marks) < 2 {
		t.Fatalf("%d watermarks were recorded", len(marks))
	}
	for _, mark := range marks {
		for _, c := range commits {
			if i := recorded[strconv.FormatInt(c.rev, 10)]; c.at < mark.Covers && (i == 0 || i > mark.I) {
				t.Fatalf("the watermark %d covers revision %d, which was recorded as %d", mark.I, c.rev, i)
			}
		}
	}
}

func TestTenThousandGrantsInARowAreKeptUpWith(t *testing.T) {
	m := etcdtest.Start(t)
	s := openStore(t, m)
	p := newPage()
	w := attachEtcd(t, p, m.URL())
	s.open("s", "a")
	const writers, each = 8, 1250
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := range each {
				s.grant(fmt.Sprintf("k%d", n), "a", "s"+strconv.Itoa(i%2))
			}
		})
	}
	wg.Wait()
	w.drained(t)
	p.keptPlace(t)
	if got := len(tokens(p)); got != writers*each {
		t.Errorf("%d grants were recorded, want %d", got, writers*each)
	}
}

func TestAnEtcdThatIsKilledAndComesBackLosesNothing(t *testing.T) {
	m := etcdtest.Start(t)
	s := openStore(t, m)
	p := newPage()
	w := attachEtcd(t, p, m.URL())
	s.open("s", "a")
	var want []int64
	for range 3 {
		for range 20 {
			want = append(want, s.grant("k", "a", "s"))
		}
		if err := m.Crash(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = append(want, s.grant("k", "a", "s"))
	}
	w.drained(t)
	p.keptPlace(t)
	s.nothingMissed(w, p, "k", want)
	if n := len(p.all(history.OpElection)); n == 0 {
		t.Error("no election was recorded")
	}
}

func TestTheWatchGoesOnAtAnotherMember(t *testing.T) {
	for name, fault := range map[string]struct {
		inject, heal func(*etcd.Member, context.Context) error
	}{
		"when one is killed":  {(*etcd.Member).Crash, (*etcd.Member).Start},
		"when one is stopped": {(*etcd.Member).Pause, (*etcd.Member).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := etcdtest.StartCluster(t, 3)
			p := newPage()
			w := attachEtcd(t, p, members[0].URL(), members[1].URL(), members[2].URL())
			openStore(t, members...).open("s", "a")
			var want []int64
			for n, m := range members {
				if err := fault.inject(m, t.Context()); err != nil {
					t.Fatal(err)
				}
				s := openStore(t, members[(n+1)%3], members[(n+2)%3])
				for range 10 {
					want = append(want, s.grant("k", "a", "s"))
				}
				w.drained(t) // although one is away
				if err := fault.heal(m, t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			p.keptPlace(t)
			openStore(t, members...).nothingMissed(w, p, "k", want)
			if n := len(p.all(history.OpElection)); n == 0 {
				t.Error("each member was away once, and no election was recorded")
			}
		})
	}
}

func TestAHistoryThatWasCompactedIsNoFirstRevision(t *testing.T) {
	m := etcdtest.Start(t)
	leavesNoGoroutine(t)
	s := openStore(t, m)
	s.open("s", "a")
	if _, err := s.Compact(t.Context(), s.grant("k", "a", "s")); err != nil {
		t.Fatal(err)
	}
	p := newPage()
	_, err := AttachEtcd(t.Context(), EtcdConfig{Endpoints: []string{m.URL()}, Proc: "etcd"}, p)
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "compacted") {
		t.Errorf("attached: %v", err)
	}
	if e := p.awaitLost(t); !strings.Contains(e.Msg, "compacted") {
		t.Errorf("it lost its place because %q", e.Msg)
	}
}

func TestHistoryThatIsCompactedWhileTheWitnessIsAwayIsLost(t *testing.T) {
	m := etcdtest.Start(t)
	s := openStore(t, m)
	line := hold(t, m)
	p := newPage()
	w := attachEtcd(t, p, line.url())
	s.open("s", "a")
	w.drained(t)
	line.cut()
	for range 3 {
		s.grant("k", "a", "s")
	}
	if _, err := s.Compact(t.Context(), s.grant("k", "a", "s")); err != nil {
		t.Fatal(err)
	}
	line.mend()
	if e := p.awaitLost(t); !strings.Contains(e.Msg, "compacted") {
		t.Errorf("it lost its place because %q", e.Msg)
	}
	if err := w.Close(t.Context()); !errors.Is(err, ErrLost) || p.whole(history.LockDB) {
		t.Errorf("closed with %v; complete: %t", err, p.whole(history.LockDB))
	}
}

// Another etcd answers at the same address: one whose history is shorter, or of another cluster.
func TestAnotherHistoryIsRecognised(t *testing.T) {
	one, other := etcdtest.Start(t), etcdtest.Start(t)
	a, b := openStore(t, one), openStore(t, other)
	line := hold(t, one)
	p := newPage()
	w := attachEtcd(t, p, line.url())
	a.open("s", "a")
	w.drained(t)
	b.open("s", "a")
	b.grant("k", "a", "s")
	line.cut()
	line.to = other
	line.mend()
	if e := p.awaitLost(t); !strings.Contains(e.Msg, "another etcd cluster") {
		t.Errorf("it lost its place because %q", e.Msg)
	}
}

func TestAnEtcdThatIsPutBackToAnOlderStateIsRecognised(t *testing.T) {
	for name, more := range map[string]int{"and goes on from there": 0, "and has grown past the old revision before it is seen again": 9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdtest.Start(t)
			s := openStore(t, m)
			line := hold(t, m)
			p := newPage()
			w := attachEtcd(t, p, line.url())
			s.open("s", "a")
			step := func(do func(context.Context) error) {
				t.Helper()
				if err := do(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			step(m.Stop)
			old := t.TempDir()
			step(func(context.Context) error { return os.CopyFS(old, os.DirFS(m.DataFolder())) })
			step(m.Start)
			for range 4 {
				s.grant("k", "a", "s")
			}
			w.drained(t)
			line.cut()
			step(m.Crash)
			step(func(context.Context) error { return os.RemoveAll(m.DataFolder()) })
			step(func(context.Context) error { return os.CopyFS(m.DataFolder(), os.DirFS(old)) })
			step(m.Start)
			for range more {
				s.grant("j", "a", "s")
			}
			line.mend()
			if e := p.awaitLost(t); !strings.Contains(e.Msg, "put back to an older state") {
				t.Errorf("it lost its place because %q", e.Msg)
			}
		})
	}
}

func TestWithoutAnAnswerOfEtcdTheEndIsNotKnown(t *testing.T) {
	m := etcdtest.Start(t)
	p := newPage()
	w := attachEtcd(t, p, m.URL())
	if err := m.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); !errors.Is(err, ErrLost) || p.whole(history.LockDB) {
		t.Errorf("closed with %v; complete: %t", err, p.whole(history.LockDB))
	}
	p.awaitLost(t)
}
