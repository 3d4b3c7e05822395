package witness

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/deploy/etcd/etcdtest"

	"go.etcd.io/etcd/client/v3"
)

// A later epoch begins with what etcd holds then, whether its history was compacted or goes back to the first revision: what
// that says was recorded already, or is of a time that was lost.
func TestTheNextEpochOnEtcdBeginsWithWhatIsThere(t *testing.T) {
	for name, compact := range map[string]bool{"with its history": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdtest.Start(t)
			s := openStore(t, m)
			p := newPage()
			w := attachEtcd(t, p, m.URL())
			step := func(do func(context.Context) error) {
				t.Helper()
				if err := do(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.open("s", "a")
			s.open("s", "a") // its row is not as it was made
			s.open("dead", "b")
			kept := s.grant("k", "a", "s")
			s.grant("unswept", "b", "dead")
			revoked := s.do(clientv3.OpPut(revocationPrefix+"u", revocationValue("k", 1)))
			s.do(clientv3.OpDelete(sessionPrefix + "dead")) // with it its grant, of which the key is still there
			step(m.Stop)
			old := t.TempDir()
			step(func(context.Context) error { return os.CopyFS(old, os.DirFS(m.DataFolder())) })
			step(m.Start)
			lost := s.grant("k", "c", "s")
			if err := w.Detach(t.Context()); err != nil {
				t.Fatal(err)
			}
			step(m.Crash)
			step(func(context.Context) error {
				return m.ReplaceData(func(dir string) error { return os.CopyFS(dir, os.DirFS(old)) })
			})
			step(m.Start)
			if compact {
				if _, err := s.Compact(t.Context(), revoked+1); err != nil {
					t.Fatal(err)
				}
			}

			w, err := AttachEtcd(t.Context(), EtcdConfig{Endpoints: []string{m.URL()}, Proc: "etcd", Epoch: 1}, p)
			if err != nil {
				t.Fatal(err)
			}
			again := s.grant("k", "d", "s")
			s.do(clientv3.OpDelete(lockPrefix + "unswept")) // no grant ends with it
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.keptPlace(t)
			if again != lost {
				t.Fatalf("the store issued %d and then %d: it was not put back", lost, again)
			}
			var told []string
			for _, e := range p.all(history.OpCommit) {
				if e.Epoch == 1 {
					told = append(told, strings.TrimSpace(e.Msg+" "+brief(e.Changes)))
				}
			}
			want := fmt.Sprintf("snapshot insert session  > s/a/2000; insert entry  > k/a/s/%d/3000/0; insert revocation  > k/a/1/%d/op/stuck for good | update entry k/a/s/%d/3000/0 > k/d/s/%d/3000/0", kept, revoked, kept, again)
			if got := strings.Join(told, " | "); got != want {
				t.Errorf("recorded\n%s, want\n%s", got, want)
			}
			if !p.whole(history.LockDB) {
				t.Error("the history was not completed")
			}
		})
	}
}

// A message of gRPC is 4 MiB at most, unless one says otherwise. What an epoch begins with may be more.
func TestAnEpochOnEtcdBeginsWithHoweverMuchThereIs(t *testing.T) {
	m := etcdtest.Start(t)
	s := openStore(t, m)
	const sessions = 80
	for i := range sessions {
		s.open(fmt.Sprint("s", i), strings.Repeat("o", 60<<10))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p := newPage()
	w, err := AttachEtcd(ctx, EtcdConfig{Endpoints: []string{m.URL()}, Proc: "etcd", Epoch: 1}, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := p.all(history.OpCommit); len(all) != 1 || len(all[0].Changes) != sessions {
		t.Errorf("%d commits were recorded, want one with %d sessions", len(all), sessions)
	}
}
