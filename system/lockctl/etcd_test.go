package lockctl_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/system/lock/etcdstore"
	"fenceproof/system/lockctl/guard"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// onEtcd is a system whose lock is in etcd, and the etcd of one member that it is in.
type onEtcd struct {
	*system
	members []*etcd.Member
	etcdutl string
}

func newOnEtcd(t *testing.T, members ...*etcd.Member) *onEtcd {
	t.Helper()
	s := &onEtcd{system: newSystem(t), members: members}
	in, err := etcd.Prepare(t.Context(), nil)
	s.check(err)
	s.etcdutl = in.Program("etcdutl")
	s.extra = []string{"LOCK_BACKEND=etcd", "ETCDUTL=" + s.etcdutl, "ETCD_ENDPOINTS=" + strings.Join(s.endpoints(), ",")}
	s.stopLock()
	s.startLockServer()
	return s
}

func (s *onEtcd) endpoints() (all []string) {
	for _, m := range s.members {
		all = append(all, m.URL())
	}
	return all
}

func (s *onEtcd) startLockServer() {
	s.Helper()
	store, err := etcdstore.Open(s.endpoints(), quiet)
	s.check(err)
	s.serveLock(store, "etcd")
}

func (s *onEtcd) client() *clientv3.Client {
	s.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.endpoints()[:1], Logger: zap.NewNop()})
	s.check(err)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// snapshot saves etcd as it is, and gives the file.
func (s *onEtcd) snapshot() string {
	s.Helper()
	from, err := s.client().Snapshot(s.Context())
	s.check(err)
	defer from.Close()
	name := filepath.Join(s.TempDir(), "etcd.snap")
	to, err := os.Create(name)
	s.check(err)
	_, err = io.Copy(to, from)
	s.check(err)
	s.check(to.Close())
	return name
}

// compact has etcd forget what was.
func (s *onEtcd) compact() {
	s.Helper()
	r, err := s.client().Get(s.Context(), "k")
	s.check(err)
	_, err = s.client().Compact(s.Context(), r.Header.Revision)
	s.check(err)
}

// restore starts every member from data that make has made of it, with lock-server down.
func (s *onEtcd) restore(make func(m *etcd.Member, dir string)) {
	s.Helper()
	s.stopLock()
	for _, m := range s.members {
		s.check(m.Stop(s.Context()))
	}
	for _, m := range s.members {
		s.check(m.ReplaceData(func(dir string) error { make(m, dir); return nil }))
		s.check(m.Start(s.Context()))
	}
	for _, m := range s.members {
		s.check(m.AwaitHealthy(s.Context()))
	}
}

func (s *onEtcd) guarded(m *etcd.Member, file, dir string) []string {
	return deed(append([]string{"restore-guard", "--snapshot", file, "--data-dir", dir}, m.RestoreFlags()...)...)
}

func TestTheCommandsDoOnEtcdWhatTheyDoOnPostgreSQL(t *testing.T) {
	s := newOnEtcd(t, etcdtest.Start(t))
	account, payouts := s.account(0, "PENDING")
	key := "payout:" + account
	token := s.hold(key, "executor-2")
	s.want(s.ctl("inspect", key), 0, fmt.Sprintf("HELD      by executor-2\nTOKEN     %d\n", token))
	s.want(s.ctl("list", "--prefix", "payout:"), 0, fmt.Sprintf("%s  executor-2  %d  ", key, token))
	s.want(s.ctl("sessions", "--owner", "executor-2"), 0, "1m0s", "  1\n")
	s.want(s.ctl(deed("abandon", payouts[0], "--wait", "0s")...), 1, "executor-2 holds "+key)
	s.want(s.ctl(deed("revoke", key, "--expect", fmt.Sprint(token))...), 0, fmt.Sprintf("token %d of %s", token, key))
	s.want(s.ctl(deed("abandon", payouts[0])...), 0, "ABANDONED, was PENDING")
	s.want(s.ctl("list"), 0, "SESSION\n")
}

// The same story twice, as on pg.
func TestARestoredEtcdHandsOutNoTokenTwiceOnceItIsGuarded(t *testing.T) {
	s := newOnEtcd(t, etcdtest.Start(t))
	account, payouts := s.account(0, "PENDING")
	key := "payout:" + account
	s.hold("kept in the snapshot", "executor-1")
	file := s.snapshot()
	s.work(account, payouts[0], "executor-1", "PENDING")
	highest := s.work(account, payouts[0], "executor-2", "CLAIMED")

	s.restore(func(m *etcd.Member, dir string) {
		args := append([]string{"snapshot", "restore", file, "--data-dir", dir}, m.RestoreFlags()...)
		if out, err := exec.Command(s.etcdutl, args...).CombinedOutput(); err != nil {
			s.Fatalf("%v\n%s", err, out)
		}
	})
	s.want(s.ctl(deed("restore-guard")...), 1, "this cluster would hand out tokens again")
	s.startLockServer()
	again := s.hold(key, "executor-3")
	if code := s.claim(payouts[0], "executor-3", again, "CLAIMED"); again > highest || code == "" {
		t.Errorf("unguarded: after token %d, token %d was granted and answered %q", highest, again, code)
	}
	for range highest { // by now etcd is past every token, and has granted some of them twice
		s.hold(fmt.Sprint("another ", s.session("executor-4")), "executor-4")
	}
	s.want(s.ctl(deed("restore-guard")...), 1, "was not restored by restore-guard --snapshot")
	s.compact() // as etcd does by itself where it was told to
	s.want(s.ctl(deed("restore-guard")...), 1, "was not restored by restore-guard --snapshot")

	s.restore(func(m *etcd.Member, dir string) {
		s.want(s.ctl(s.guarded(m, file, dir)...), 0, fmt.Sprintf("PAYDB HAS SEEN  token %d (payout.claim_token)\n", highest), "STOOD AT        ", "NEXT STEP       start etcd from it")
	})
	s.want(s.ctl(deed("restore-guard")...), 0, "ENDED SESSIONS  1\n")
	s.want(s.ctl(deed("restore-guard")...), 1, "was guarded already, at revision 10000000", "nothing is left to do")
	s.startLockServer()
	if s.held("kept in the snapshot").Held {
		t.Error("a grant outlived the guard")
	}
	token := s.hold(key, "executor-3")
	if code := s.claim(payouts[0], "executor-3", token, "CLAIMED"); token < 1_000_000_000 || code != "" {
		t.Errorf("guarded: after token %d, token %d was granted and answered %q", highest, token, code)
	}
	s.want(s.ctl(deed("restore-guard")...), 1, "it is in use again since")
	if !s.held(key).Held {
		t.Error("a refused guard has ended a session")
	}
	r, err := s.client().Get(t.Context(), "fenceproof/restore/", clientv3.WithPrefix())
	if err != nil || len(r.Kvs) != 1 || !strings.Contains(string(r.Kvs[0].Value), `"operator":"olga","reason":"it hangs since noon"`) {
		t.Errorf("kept: %v, %v", r, err)
	}
}

// The snapshot is of a cluster that was guarded once, and is restored by other means than the guard's: it may be past all
// that paydb has seen, and have granted more since.
func TestAnEarlierGuardSaysNothingOfALaterRestore(t *testing.T) {
	for name, c := range map[string]struct {
		x       guard.Standing
		refused string
	}{
		"just restored":                        {guard.Standing{Revision: guard.Bump + 90, Compacted: guard.Bump + 90, LastPut: 90}, ""},
		"an empty snapshot":                    {guard.Standing{Revision: guard.Bump + 1, Compacted: guard.Bump + 1}, ""},
		"its leases have run out since":        {guard.Standing{Revision: guard.Bump + 95, Compacted: guard.Bump + 90, LastPut: 90}, ""},
		"guarded, and nothing since":           {guard.Standing{Revision: guard.Bump + 91, Compacted: guard.Bump + 90, LastPut: guard.Bump + 91, Guarded: true}, "was guarded already"},
		"guarded, and in use":                  {guard.Standing{Revision: guard.Bump + 99, Compacted: guard.Bump + 90, LastPut: guard.Bump + 98}, "in use again since"},
		"guarded, in use, and compacts itself": {guard.Standing{Revision: guard.Bump + 5000, Compacted: guard.Bump + 4900, LastPut: guard.Bump + 91, Guarded: true}, "was not restored"},
		"in use, and compacts itself":          {guard.Standing{Revision: 6000, Compacted: 5900, LastPut: 5890}, "was not restored"},
		"everything compacted and gone":        {guard.Standing{Revision: 6000, Compacted: 6000}, "was not restored"},
		"guarded twice":                        {guard.Standing{Revision: 2*guard.Bump + 91, Compacted: 2*guard.Bump + 91, LastPut: guard.Bump + 91, Guarded: true}, ""},
	} {
		err := c.x.Check(guard.Seen{Token: 80, Place: "account.fence"})
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
	}
}

func TestAnEtcdThatCannotBeReachedIsNamedWithWhatIsWrong(t *testing.T) {
	s := newSystem(t)
	s.extra = []string{"LOCK_BACKEND=etcd"}
	s.want(s.ctl(deed("restore-guard", "--endpoints", "http://127.0.0.1:1,http://127.0.0.1:2")...), 1, "http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused", "http://127.0.0.1:2: ")
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	s.check(err)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = guard.Etcd{Endpoints: []string{"http://" + silent.Addr().String()}}.Read(ctx)
	if err == nil || !strings.Contains(err.Error(), "ask etcd where it stands: http://"+silent.Addr().String()+": ") {
		t.Error(err)
	}
}

func TestAClusterIsRestoredMemberByMember(t *testing.T) {
	s := newOnEtcd(t, etcdtest.StartCluster(t, 3)...)
	account, payouts := s.account(0, "PENDING")
	file := s.snapshot()
	s.work(account, payouts[0], "executor-1", "PENDING")
	s.restore(func(m *etcd.Member, dir string) { s.want(s.ctl(s.guarded(m, file, dir)...), 0) })
	s.want(s.ctl(deed("restore-guard", "--json")...), 0, `"endedSessions": 0`)
	s.startLockServer()
	if token := s.work(account, payouts[0], "executor-2", "CLAIMED"); token < 1_000_000_000 {
		t.Errorf("token %d was granted", token)
	}
}

func TestNoDataIsMadeOfASnapshotThatWouldNotBePastWhatPaydbHasSeen(t *testing.T) {
	s := newOnEtcd(t, etcdtest.Start(t))
	account, _ := s.account(0)
	s.hold("k", "executor-1")
	file := s.snapshot()
	fence := func(n int64) { s.pay(`UPDATE account SET fence = $2 WHERE account_id = $1`, account, n) }
	home := t.TempDir()
	refused := func(says string, args ...string) {
		t.Helper()
		dir := filepath.Join(home, "refused")
		s.want(s.ctl(deed(append([]string{"restore-guard", "--data-dir", dir}, args...)...)...), 1, says)
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("%v left %s behind", args, dir)
		}
	}
	fence(1 << 40)
	refused("would not be past it; give a --floor that is", "--snapshot", file)
	refused("a floor of 1099511627775 is below token 1099511627776 (account.fence)", "--snapshot", file, "--floor", "1099511627775")
	s.want(s.ctl(deed("restore-guard", "--snapshot", file, "--data-dir", filepath.Join(home, "floor"), "--floor", "1099511627777", "--json")...), 0, `"nextToken": 1099511627778`)
	refused("2^63-1", "--snapshot", file, "--floor", fmt.Sprint(int64(math.MaxInt64)))
	fence(math.MaxInt64)
	refused("would not be past it", "--snapshot", file)

	fence(1)
	cut := filepath.Join(home, "cut")
	body, err := os.ReadFile(file)
	s.check(err)
	s.check(os.WriteFile(cut, body[:len(body)-1], 0o600))
	refused("restore "+cut, "--snapshot", cut)
	refused("read the revision of", "--snapshot", filepath.Join(home, "none"))
	refused("there is no program", "--snapshot", file, "--etcdutl", filepath.Join(home, "etcdutl"))
	s.want(s.ctl(deed("restore-guard", "--snapshot", file, "--data-dir", home)...), 1, "exists already")
}
