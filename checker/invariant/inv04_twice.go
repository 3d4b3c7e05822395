package invariant

import (
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// issues remembers which token was answered to whom, so that a store which does not know of it any more can be told which
// of them it has granted a second time, whatever the keys. It is bounded: such a store grants the latest again.
type issues struct {
	latest []issue       // a ring, once it is full
	at     map[int64]int // token → its place there
	next   int           // the place that is taken next
	twice  []twice
	found  int64
	least  int64
	most   int64

	lower string // the sentence of the first violation that a store's having forgotten tokens explains
	by    string // what had it forget them
}

// issue is a grant as it was answered, in few bytes.
type issue struct {
	epoch          int
	i, t, call     int64
	token          int64
	key, link      string
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

func newIssues() issues { return issues{at: map[int64]int{}} }

// add takes the answer to an acquire.
func (s *issues) add(e *history.Event, epoch int) {
	now := issue{epoch, e.I, e.T, e.Call, e.Granted, e.Key, e.Link, e.Proc, e.Owner, e.Session}
	at, there := s.at[now.token]
	if !there {
		s.remember(now)
		return
	}
	if was := s.latest[at]; was.epoch < epoch {
		if s.found++; s.found == 1 || now.token < s.least {
			s.least = now.token
		}
		s.most = max(s.most, now.token)
		s.show(twice{was, now})
	}
	s.latest[at] = now
}

// remember puts a token that is not there in the place of the one that was remembered first.
func (s *issues) remember(now issue) {
	if len(s.latest) < maxIssues {
		s.at[now.token] = len(s.latest)
		s.latest = append(s.latest, now)
		return
	}
	delete(s.at, s.latest[s.next].token)
	s.latest[s.next], s.at[now.token] = now, s.next
	s.next = (s.next + 1) % maxIssues
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
	return fmt.Sprintf("%s issued twice, by %s: %s", what, s.by, strings.Join(to, ", "))
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
		Call: x.call, Link: x.link, Key: x.key, Owner: x.owner, Session: x.session, Granted: x.token, Status: 200}
}

// forgot notes that a key's tokens went down behind the epoch's beginning, and what by says began it; nil where nobody says.
func (s *issues) forgot(sentence string, by *history.Event) {
	if s.lower != "" {
		return
	}
	s.lower = sentence
	switch {
	case by == nil:
		s.by = "a lock store that had forgotten what it granted last"
	case promotes(by):
		s.by = "a standby that was promoted and lacked what its primary had granted last"
	default:
		s.by = "a lock store that was put back to an older state"
	}
}

// tellTwice puts what a store has issued twice in the place of the first violation that this explains, and that one first.
// Only where a key's tokens went down is it one: keys may have numbers of their own.
func (f *grants) tellTwice() {
	if f.issues.found == 0 || f.issues.lower == "" {
		return
	}
	n := slices.IndexFunc(f.kept, func(v verdict.Violation) bool { return v.Sentence == f.issues.lower })
	if n < 0 {
		n = len(f.kept) - 1 // there were too many before it
	}
	first := f.issues.twice[0].again
	w := want{key: first.key, tokens: [2]int64{first.token}}
	told := verdict.Violation{Sentence: f.issues.sentence(), Key: w.key, Events: f.book.evidence(w, f.issues.proof())}
	f.kept = slices.Insert(slices.Delete(f.kept, n, n+1), 0, told)
	f.wants = slices.Insert(slices.Delete(f.wants, n, n+1), 0, w)
}
