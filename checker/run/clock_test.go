package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"
	"fenceproof/workloads"
)

// Two packages that must not know of each other speak of the longest lease.
func TestThePlanKnowsTheLongestLeaseThatLockClientsAskFor(t *testing.T) {
	l := DefaultLocks()
	for _, backend := range plan.Backends() {
		p := plan.Plan{Workload: plan.LockWorkload, Backend: backend, Locks: &l}
		if want := workloads.LongLease * p.Lease(); p.LongestLease() != want {
			t.Errorf("on %s the plan says %s, and clients ask for %s", backend, p.LongestLease(), want)
		}
		p.Locks = nil
		if p.LongestLease() != p.Lease() {
			t.Errorf("on %s nobody asks for more than %s, and the plan says %s", backend, p.Lease(), p.LongestLease())
		}
	}
}

// granted is a grant of a TTL that ends a while from now.
func granted(key string, token int64, ttl, ends time.Duration) listedGrant {
	return listedGrant{Key: key, FencingToken: token, TTLMillis: ttl.Milliseconds(), ExpiresAt: time.Now().Add(ends)}
}

// shelf is a lock store whose clock was ahead.
type shelf struct {
	held     []listedGrant
	underWay []int // at each look, the last for ever
	looks    int
	late     []listedGrant // granted by what is under way when it is over
	down     int           // so many lists fail
	revoked  []int64
}

func (s *shelf) mending() mending {
	return mending{
		ahead: func(context.Context) (int, error) {
			n := s.underWay[min(s.looks, len(s.underWay)-1)]
			if s.looks++; n == 0 {
				s.held, s.late = append(s.held, s.late...), nil
			}
			return n, nil
		},
		grants: func(context.Context) ([]listedGrant, error) {
			if s.down--; s.down >= 0 {
				return nil, errors.New("nobody answers")
			}
			return slices.Clone(s.held), nil
		},
		revoke: func(_ context.Context, key string, token int64) error {
			n := len(s.held)
			s.held = slices.DeleteFunc(s.held, func(g listedGrant) bool { return g.FencingToken == token })
			if len(s.held) == n {
				return nemesis.ErrNotHeld
			}
			s.revoked = append(s.revoked, token)
			return nil
		},
	}
}

func TestOnlyWhatTheWrongClockMadeTooLongIsRevoked(t *testing.T) {
	s := &shelf{underWay: []int{0}, held: []listedGrant{
		granted("short", 1, time.Second, 900*time.Millisecond),
		granted("three times as long", 2, 3*time.Second, 2900*time.Millisecond), // an honest one, and longer than the shortest
		granted("a lease ahead", 3, time.Second, 1900*time.Millisecond),
		granted("an hour ahead", 4, 3*time.Second, time.Hour),
	}}
	n, err := s.mending().run(t.Context())
	if err != nil || n != 2 || !slices.Equal(s.revoked, []int64{3, 4}) {
		t.Errorf("%d were revoked, %v: %v", n, s.revoked, err)
	}
}

// An acquire that began by the wrong clock may be committed long after that was put right.
func TestWhatIsUnderWayWhenTheClockIsRightAgainIsWaitedFor(t *testing.T) {
	s := &shelf{underWay: []int{1, 1, 1, 1, 1, 0}, late: []listedGrant{granted("late", 7, time.Second, time.Hour)}}
	n, err := s.mending().run(t.Context())
	if err != nil || n != 1 || !slices.Equal(s.revoked, []int64{7}) {
		t.Errorf("%d were revoked, %v: %v", n, s.revoked, err)
	}
}

func TestALockServerThatIsDownIsAskedAgainAndBlamedWhereItStaysDown(t *testing.T) {
	s := &shelf{underWay: []int{0}, down: 2, held: []listedGrant{granted("k", 1, time.Second, time.Hour)}}
	if n, err := s.mending().run(t.Context()); err != nil || n != 1 {
		t.Errorf("%d were revoked: %v", n, err)
	}
	for _, c := range []struct {
		name   string
		does   func(m *mending)
		system bool
		words  string
	}{
		{"it lists nothing", func(m *mending) {
			m.grants = func(context.Context) ([]listedGrant, error) { return nil, errors.New("nobody answers") }
		}, true, "nobody answers"},
		{"it answers every revoke 500", func(m *mending) {
			m.revoke = func(context.Context, string, int64) error { return errors.New("the revoke was answered 500") }
		}, true, "(0 were): the revoke was answered 500"},
		{"it says that it has revoked, and has not", func(m *mending) {
			m.revoke = func(context.Context, string, int64) error { return nil }
		}, true, "at the last look 1 grants lasted too long of which the lock server had said that they were over"},
		{"it has revoked all, and at each look there are others, until the time is up", func(m *mending) {
			token := int64(0)
			m.grants = func(context.Context) ([]listedGrant, error) {
				token++
				return []listedGrant{granted("k", token, time.Second, time.Hour)}, nil
			}
			m.revoke = func(context.Context, string, int64) error { return nil }
		}, false, "at the last look 1 grants lasted too long, and there was no time for another"},
		{"lockdb cannot be asked what is under way", func(m *mending) {
			m.ahead = func(context.Context) (int, error) { return 0, errors.New("no connection") }
		}, false, "no connection"},
		{"something is under way for ever", func(m *mending) {
			m.ahead = func(context.Context) (int, error) { return 1, nil }
		}, false, "1 transactions that had begun by the wrong clock were under way"},
	} {
		m := (&shelf{underWay: []int{0}, held: []listedGrant{granted("k", 1, time.Second, time.Hour)}}).mending()
		c.does(&m)
		soon, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		_, err := m.run(soon)
		cancel()
		if err == nil || errors.As(err, new(nemesis.RunbookError)) != c.system || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: it says %v", c.name, err)
		}
	}
}

func TestGrantsAreListedPageByPage(t *testing.T) {
	var asked []string
	pages := map[string]string{
		"/locks?":               `{"locks": [{"key": "a", "fencingToken": 1}, {"key": "b/&c", "fencingToken": 2}], "nextAfter": "b/&c"}`,
		"/locks?after=b%2F%26c": `{"locks": [{"key": "d", "fencingToken": 9007199254740993}]}`,
	}
	all, err := listGrants(t.Context(), func(_ context.Context, path string, to any) error {
		asked = append(asked, path)
		return json.Unmarshal([]byte(pages[path]), to)
	})
	if err != nil || len(all) != 3 || all[2].Key != "d" || all[2].FencingToken != 9007199254740993 {
		t.Errorf("%v after %q: %v", all, asked, err)
	}
}

func TestOnlyAfterLockdbsClockIsThereAnythingToSetRight(t *testing.T) {
	left, err := target{}.ClockHealed(t.Context(), contract.PayDB)
	if left != "" || err != nil {
		t.Errorf("after paydb's it says %q, %v", left, err)
	}
	if _, err := (target{}).ClockHealed(t.Context(), contract.LockDB); err == nil || !strings.Contains(err.Error(), "no operator") {
		t.Errorf("without anybody who could do it, it says %v", err)
	}
}
