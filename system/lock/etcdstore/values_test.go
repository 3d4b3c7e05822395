package etcdstore_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"fenceproof/deploy/port"
	"fenceproof/system/lock"
	"fenceproof/system/lock/locktest"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// One value that is none of ours must not take the watch away from everybody. It is said, once.
func TestAKeyThatCannotBeReadIsSaidOnceAndHindersNobody(t *testing.T) {
	t.Parallel()
	b, said := newBackend(t), &logged{}
	relay := locktest.NewRelay(t, b.Address())
	s := openLogging(t, said, "http://"+relay.Address())
	session := uuid.NewString()
	locktest.Eventually(t, "the watch stands", func() bool { _, err := s.Held(t.Context()); return err == nil })
	for _, key := range []string{"fenceproof/lock/odd", "fenceproof/session/" + session} {
		if _, err := b.client.Put(t.Context(), key, "no JSON"); err != nil {
			t.Fatal(err)
		}
	}
	x, err := s.OpenSession(t.Context(), "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.TryAcquire(t.Context(), "k", "a", x.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	counted := func() bool { n, err := s.Held(t.Context()); return err == nil && n == 1 }
	locktest.Eventually(t, "the watch goes on", counted)
	relay.Cut()
	locktest.Eventually(t, "the watch stands again", func() bool { return counted() && len(said.at(slog.LevelWarn, "the watch broke")) > 0 })
	if all := said.at(slog.LevelError, ""); len(all) != 2 || !strings.Contains(all[0]+all[1], "lock/odd") || !strings.Contains(all[0]+all[1], session) {
		t.Errorf("it was said: %q", all)
	}
	if _, err := s.TryAcquire(t.Context(), "odd", "a", x.ID, time.Minute); err == nil {
		t.Error("a key that cannot be read was granted")
	}
	if _, err := s.Heartbeat(t.Context(), session); err == nil {
		t.Error("a session that cannot be read was kept alive")
	}
}

func TestAWatchThatDoesNotStandSaysWhyAndSaysItOnce(t *testing.T) {
	t.Parallel()
	r, err := port.Reserve() // nobody listens there
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	said := &logged{}
	s := openLogging(t, said, "http://"+r.Address())
	locktest.Eventually(t, "the watch was tried again", func() bool { return len(said.at(slog.LevelDebug, "the watch broke")) > 0 })
	if _, err := s.Reap(t.Context()); err == nil || !strings.Contains(err.Error(), "read all locks and sessions") {
		t.Errorf("the reaper was told: %v", err)
	}
	if all := said.at(slog.LevelWarn, "the watch broke"); len(all) == 0 || len(all) > 3 {
		t.Errorf("it was said %d times: %q", len(all), all)
	}
}

// No member of a cluster that is full has space: to go from one to the next would open the watch anew at each write.
func TestAClusterThatIsFullIsNotAskedElsewhere(t *testing.T) {
	t.Parallel()
	b, said := newBackend(t), &logged{}
	s := openLogging(t, said, "http://"+b.Address(), "http://"+b.Address())
	stands := func() bool { _, err := s.Held(t.Context()); return err == nil }
	locktest.Eventually(t, "the watch stands", stands)
	status, err := b.client.Status(t.Context(), b.member.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcdserverpb.NewMaintenanceClient(b.client.ActiveConnection()).Alarm(t.Context(), &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: etcdserverpb.AlarmType_NOSPACE}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if x, err := s.OpenSession(t.Context(), "a", time.Minute); err == nil || !strings.Contains(err.Error(), lock.ErrUnavailable.Error()) {
			t.Fatalf("got %+v, %v", x, err)
		}
		locktest.Eventually(t, "the watch stands", stands)
	}
	if all := said.at(slog.LevelWarn, "another member is asked"); len(all) > 0 {
		t.Errorf("it was said: %q", all)
	}
}
