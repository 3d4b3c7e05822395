package invariant

import (
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// issues remembers which token was answered to whom, so that a store which was put back to an older state can be told
// which of them it has granted a second time, whatever the keys. It is bounded: such a store grants the latest again.
type issues struct {
	byToken map[int64]issue
	order   []int64 // of byToken, oldest first
	twice   []twice
	found   int64
	least   int64
	most    int64
}

// issue is a grant as it was answered, in few bytes.
type issue struct {
	epoch          int
	i, t, call     int64
	token          int64
	key            string
	proc           contract.Process
	owner, session string
}

// twice is a token that was answered in two epochs.
type twice struct{ first, again issue }

// How many answered tokens are remembered, and of how many that were answered twice both answers are.
const (
	maxIssues = 4096
	maxTwice  = 5
)

func newIssues() issues { return issues{byToken: map[int64]issue{}} }

// add takes the answer to an acquire.
func (s *issues) add(e *history.Event, epoch int) {
	now := issue{epoch, e.I, e.T, e.Call, e.Granted, e.Key, e.Proc, e.Owner, e.Session}
	was, there := s.byToken[now.token]
	if there && was.epoch < epoch {
		if s.found++; s.found == 1 || now.token < s.least {
			s.least = now.token
		}
		s.most = max(s.most, now.token)
		s.show(twice{was, now})
	}
	if !there {
		if len(s.order) == maxIssues {
			delete(s.byToken, s.order[0])
			s.order = slices.Delete(s.order, 0, 1)
		}
		s.order = append(s.order, now.token)
	}
	s.byToken[now.token] = now
}

// show keeps the first few to be shown, and rather those in which the key is the same as well.
func (s *issues) show(x twice) {
	if len(s.twice) < maxTwice {
		s.twice = append(s.twice, x)
		return
	}
	i := slices.IndexFunc(s.twice, func(x twice) bool { return x.first.key != x.again.key })
	if x.first.key == x.again.key && i >= 0 {
		s.twice = append(slices.Delete(s.twice, i, i+1), x)
	}
}

// sentence says which tokens were issued twice, and to whom.
func (s *issues) sentence() string {
	var to []string
	for _, x := range s.twice {
		to = append(to, fmt.Sprintf("%d to %s for %s and again to %s for %s", x.first.token, x.first.proc, x.first.key, x.again.proc, x.again.key))
	}
	if more := s.found - int64(len(s.twice)); more > 0 {
		to = append(to, fmt.Sprintf("and %d more", more))
	}
	what := fmt.Sprintf("%d tokens from %d to %d were", s.found, s.least, s.most)
	if s.found == 1 {
		what = fmt.Sprintf("token %d was", s.least)
	}
	return fmt.Sprintf("%s issued twice, by a lock store that was put back to an older state: %s", what, strings.Join(to, ", "))
}

// proof is the answers of the first few, both of each.
func (s *issues) proof() (events []*history.Event) {
	for _, x := range s.twice[:min(len(s.twice), maxEvidence/2)] {
		events = append(events, x.first.show(), x.again.show())
	}
	return events
}

// show is the answer as evidence.
func (x *issue) show() *history.Event {
	return &history.Event{I: x.i, T: x.t, W: history.Wiretap, Type: contract.OK, Proc: x.proc, Op: contract.OpAcquire, Stage: history.Answered,
		Call: x.call, Key: x.key, Owner: x.owner, Session: x.session, Granted: x.token, Status: 200}
}

// tellTwice puts first what a store that was put back has issued twice: it explains all that was found of it besides. Only
// where a key's tokens went down is it a violation: keys may have numbers of their own.
func (f *grants) tellTwice() {
	if f.issues.found == 0 || f.found == 0 {
		return
	}
	if n := len(f.kept) - 1; n+1 == verdict.MaxViolations {
		f.kept, f.wants = f.kept[:n], f.wants[:n]
	}
	first := f.issues.twice[0].again
	f.report(f.issues.sentence(), want{key: first.key, tokens: [2]int64{first.token}}, f.issues.proof()...)
	n := len(f.kept) - 1
	f.kept = append([]verdict.Violation{f.kept[n]}, f.kept[:n]...)
	f.wants = append([]want{f.wants[n]}, f.wants[:n]...)
}
