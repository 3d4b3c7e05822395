package reports

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/reissue"
	"fenceproof/checker/verdict"
)

// issued follows who was granted which token, and when the store was reset. Its memory is bounded.
type issued struct {
	*reissue.Follower
	resets []reset
}

func newIssued() *issued { return &issued{Follower: reissue.New()} }

// observe takes the next event, in order of I. It returns the pair where e grants a token a second time.
func (s *issued) observe(e *history.Event) *reissue.Pair {
	if e.W == history.Nemesis {
		s.hear(e)
	}
	return s.Observe(e)
}

// reissues are the tokens of a history that were issued twice: how many there are, and as many of them as there is room for.
type reissues struct {
	found int64
	pairs []reissue.Pair
}

func (r *reissues) add(p *reissue.Pair) {
	if p == nil {
		return
	}
	if r.found++; len(r.pairs) < reissue.Remembered {
		r.pairs = append(r.pairs, *p)
	}
}

// whom says to whom a token was issued, and to whom again.
func whom(p *reissue.Pair) string {
	to, again := clip(string(p.First.Proc), 60), clip(string(p.Again.Proc), 60)
	switch {
	case p.First.Proc != p.Again.Proc:
		return to + " and again to " + again
	case p.First.Session != p.Again.Session:
		return to + " and again to " + to + " in a later session"
	}
	return to + " twice"
}

// both says what the token was for, "" where that is not known.
func (s subjects) both(p *reissue.Pair) string {
	first, again := s.name(p.First.Key), s.name(p.Again.Key)
	if first != again && first != "" && again != "" {
		return first + ", then " + again
	}
	return firstOf(again, first)
}

// name is what key stands for, as a sentence calls it.
func (s subjects) name(key string) string {
	if a := accountOfKey(key); a != "" && !s.locks {
		return "account " + short(a)
	}
	return clip(key, 60)
}

// reissuesShown are those that the evidence of a violation shows whole, in order of the first grant.
func reissuesShown(v verdict.Violation) (out []reissue.Pair) {
	first := map[int64]reissue.Grant{}
	for i := range v.Events {
		e := &v.Events[i]
		if e.W != history.Wiretap || e.Op != contract.OpAcquire || e.Stage != history.Answered || e.Granted == 0 {
			continue
		}
		now := reissue.GrantOf(e)
		if was, there := first[e.Granted]; there {
			out = append(out, reissue.Pair{First: was, Again: now})
		} else {
			first[e.Granted] = now
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].First.T < out[b].First.T })
	return out
}

// tell is a violation in one sentence that can be read: ids are short, and of tokens that were issued twice those are named
// that the evidence shows.
func tell(v verdict.Violation, s subjects) string {
	pairs := reissuesShown(v)
	if v.Reissued == 0 || len(pairs) == 0 {
		return brief(v.Sentence)
	}
	var to []string
	for i := range pairs {
		p := &pairs[i]
		words := "to " + whom(p)
		if v.Reissued > 1 {
			words = token(p.First.Token) + " " + words
		}
		if of := s.both(p); of != "" {
			words += " (" + of + ")"
		}
		to = append(to, words)
	}
	said := list(to)
	if more := v.Reissued - int64(len(pairs)); more > 0 {
		said = strings.Join(to, ", ") + ", and " + group(more) + " more"
	}
	common, _, _ := strings.Cut(v.Sentence, ": ")
	return brief(common + ": " + said)
}

// maxReissued is how many tokens the page lists that were issued twice.
const maxReissued = 300

// reissueView is one row of that list.
type reissueView struct{ Token, Of, Issued string }

// view lists by token what the history holds, as far as there is room, and says what it is a list of. told is how many the
// verdict tells of: the history may have been read only in part, or the verdict be one of another version.
func (r *reissues) view(told int64, s subjects) (rows []reissueView, title string) {
	pairs := slices.Clone(r.pairs)
	slices.SortStableFunc(pairs, func(a, b reissue.Pair) int { return cmp.Compare(a.First.Token, b.First.Token) })
	for i := range pairs[:min(len(pairs), maxReissued)] {
		p := &pairs[i]
		to := clip(string(p.Again.Proc), 60)
		if p.First.Proc == p.Again.Proc && p.First.Session != p.Again.Session {
			to += ", in a later session,"
		}
		rows = append(rows, reissueView{token(p.First.Token), s.both(p), fmt.Sprintf("to %s at %s, again to %s at %s",
			clip(string(p.First.Proc), 60), seconds(micros(p.First.T)), to, seconds(micros(p.Again.T)))})
	}
	shows := "were"
	if r.found != told {
		shows = "the history shows to have been"
	}
	title = fmt.Sprintf("Which tokens %s issued twice, and to whom: %s", shows, count(r.found, "token", "tokens"))
	if r.found > int64(len(rows)) {
		title += fmt.Sprintf(", of which %d are listed", len(rows))
	}
	return rows, title
}
