package reissue

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// story is a history of acquires whose events come at the times that are given.
type story struct {
	*Follower
	calls int64
}

func (s *story) epoch(t int64, n int) {
	s.Observe(&history.Event{T: t, W: history.LockDB, Epoch: n})
}

func (s *story) forward(t int64) (call int64) {
	s.calls++
	s.Observe(&history.Event{T: t, W: history.Wiretap, Op: contract.OpAcquire, Stage: history.Forwarded, Call: s.calls, Type: contract.Invoke})
	return s.calls
}

func (s *story) answer(t, call, token int64, key string) *Pair {
	return s.Observe(&history.Event{T: t, W: history.Wiretap, Op: contract.OpAcquire, Stage: history.Answered, Call: call, Key: key, Granted: token, Type: contract.OK})
}

func (s *story) grant(t, token int64, key string) *Pair {
	return s.answer(t+1, s.forward(t), token, key)
}

func TestATokenIsIssuedTwiceOnlyByAStoreThatBeganAnew(t *testing.T) {
	for _, c := range []struct {
		name  string
		story func(s *story) *Pair
		want  [2]int64 // the calls of the pair, 0 for none
	}{
		{"the next epoch grants it again", func(s *story) *Pair {
			s.epoch(10, 1)
			return s.grant(20, 7, "b")
		}, [2]int64{1, 2}},
		{"the same epoch does, which is told elsewhere", func(s *story) *Pair { return s.grant(5, 7, "a") }, [2]int64{}},
		{"an epoch began between request and answer", func(s *story) *Pair {
			call := s.forward(5)
			s.epoch(10, 1)
			return s.answer(20, call, 7, "a")
		}, [2]int64{}},
		{"nobody saw the request", func(s *story) *Pair {
			s.epoch(10, 1)
			return s.answer(20, 99, 7, "a")
		}, [2]int64{}},
		{"the wiretap lags behind the store's log", func(s *story) *Pair {
			s.epoch(10, 1)
			s.grant(5, 8, "a")
			s.epoch(30, 2)
			return s.grant(20, 8, "a")
		}, [2]int64{2, 3}},
		{"the same epoch does, and the wiretap lags behind", func(s *story) *Pair {
			s.epoch(10, 1)
			s.grant(15, 8, "a")
			s.epoch(30, 2)
			return s.grant(20, 8, "a")
		}, [2]int64{}},
		{"the third epoch does, for the second time", func(s *story) *Pair {
			s.epoch(10, 1)
			s.grant(20, 7, "a")
			s.epoch(30, 2)
			return s.grant(40, 7, "a")
		}, [2]int64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &story{Follower: New()}
			s.grant(1, 7, "a")
			var got [2]int64
			if p := c.story(s); p != nil {
				got = [2]int64{p.First.Call, p.Again.Call}
			}
			if got != c.want {
				t.Errorf("calls %v, want %v", got, c.want)
			}
		})
	}
}

func TestTheLatestTokensAreRemembered(t *testing.T) {
	s := &story{Follower: New()}
	for token := int64(1); token <= Remembered+2; token++ {
		s.grant(token*10, token, "a")
	}
	for _, token := range []int64{1, 2} {
		if _, there := s.Latest(token); there {
			t.Errorf("%d is remembered still", token)
		}
	}
	s.epoch(1_000_000, 1)
	for token := int64(3); token <= Remembered+2; token++ {
		p := s.grant(1_000_000+token*10, token, "b")
		if p == nil || p.First.Key != "a" || p.Again.Key != "b" || p.Again.Over != "a" {
			t.Fatalf("token %d: the pair is %+v", token, p)
		}
	}
}

// A store that forgot more tokens than are remembered grants the ones first that nobody remembers any more.
func TestOfAStoreThatForgotMoreThanIsRememberedTheLatestAreFound(t *testing.T) {
	s, found := &story{Follower: New()}, 0
	for token := int64(1); token <= 2*Remembered; token++ {
		s.grant(token*10, token, "a")
	}
	s.epoch(1_000_000, 1)
	for token := int64(1); token <= 2*Remembered; token++ {
		if s.grant(1_000_000+token*10, token, "b") != nil {
			found++
		}
	}
	if found != Remembered {
		t.Errorf("%d are found, want %d", found, Remembered)
	}
}
