package invariant

import (
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/history"
	"fenceproof/checker/reissue"
	"fenceproof/checker/verdict"
)

// issues counts which tokens a store that does not know of them any more has granted a second time, whatever the keys, and
// keeps a few to be shown.
type issues struct {
	*reissue.Follower
	twice []reissue.Pair
	found int64
	least int64
	most  int64

	lower string // the sentence of the first violation that a store's having forgotten tokens explains
	by    string // what had it forget them
}

// maxTwice is of how many tokens that were answered twice both answers are kept.
const maxTwice = 5

func newIssues() issues { return issues{Follower: reissue.New()} }

// observe takes the next event.
func (s *issues) observe(e *history.Event) {
	p := s.Observe(e)
	if p == nil {
		return
	}
	if s.found++; s.found == 1 || e.Granted < s.least {
		s.least = e.Granted
	}
	s.most = max(s.most, e.Granted)
	s.show(*p)
}

// show keeps the first few to be shown, and rather those in which the key is the same as well.
func (s *issues) show(x reissue.Pair) {
	if len(s.twice) < maxTwice {
		s.twice = append(s.twice, x)
		return
	}
	i := slices.IndexFunc(s.twice, func(x reissue.Pair) bool { return x.First.Key != x.Again.Key })
	if x.First.Key == x.Again.Key && i >= 0 {
		s.twice = append(slices.Delete(s.twice, i, i+1), x)
	}
}

// sentence says which tokens were issued twice, and to whom.
func (s *issues) sentence() string {
	var to []string
	for _, x := range s.twice {
		to = append(to, fmt.Sprintf("%d to %s for %s and again to %s for %s", x.First.Token, x.First.Proc, x.First.Key, x.Again.Proc, x.Again.Key))
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
		events = append(events, x.First.Event(), x.Again.Event())
	}
	return events
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
		n = f.lastAcross() // there were too many before it
	}
	if n < 0 {
		return // or too many of another kind
	}
	first := f.issues.twice[0].Again
	w := want{key: first.Key, tokens: [2]int64{first.Token}}
	told := verdict.Violation{Sentence: f.issues.sentence(), Reissued: f.issues.found, Key: w.key, Across: true, Events: f.book.evidence(w, f.issues.proof())}
	f.kept = slices.Insert(slices.Delete(f.kept, n, n+1), 0, told)
	f.wants = slices.Insert(slices.Delete(f.wants, n, n+1), 0, w)
}
