package reports

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// issue is a token as it was granted.
type issue struct {
	epoch       int // of the lock store's log
	call        int64
	at          int64 // ns
	key         string
	to, session string
	over        string // the key that an earlier epoch had granted with it
}

// reissue is a token that was granted in two epochs of the lock store's log: at first, and again.
type reissue struct {
	token        int64
	first, again issue
}

// maxIssued bounds how many tokens are remembered; a store that forgot some grants the latest again.
const maxIssued = 20_000

// issued follows who was granted which token, and finds those that were granted a second time by a store that did not
// know of it any more. Its memory is bounded.
type issued struct {
	epoch   int
	highest int64         // of all that were granted
	sent    map[int64]int // open acquire → epoch in which it was sent
	latest  map[int64]issue
	order   []int64 // tokens of latest, the one that is forgotten next at the head
	again   []reissue
	resets  []reset
}

func newIssued() *issued { return &issued{sent: map[int64]int{}, latest: map[int64]issue{}} }

// observe takes the next event, in order of I. It returns the token that e grants a second time, nil where it does not.
func (s *issued) observe(e *history.Event) *reissue {
	switch {
	case e.W == history.LockDB:
		s.epoch = max(s.epoch, e.Epoch)
	case e.W == history.Nemesis:
		s.hear(e)
	}
	if e.W != history.Wiretap || e.Op != contract.OpAcquire {
		return nil
	}
	switch e.Stage {
	case history.Received:
		s.sent[e.Call] = s.epoch
	case history.Answered:
		sent, known := s.sent[e.Call]
		delete(s.sent, e.Call)
		if e.Granted > 0 && (!known || sent == s.epoch) { // across an epoch's beginning nobody knows which one granted it
			return s.grant(e)
		}
	}
	return nil
}

func (s *issued) grant(e *history.Event) *reissue {
	now := issue{epoch: s.epoch, call: e.Call, at: e.T, key: e.Key, to: string(e.Proc), session: e.Session}
	s.highest = max(s.highest, e.Granted)
	was, there := s.latest[e.Granted]
	if there && was.epoch < now.epoch {
		now.over = was.key
	}
	s.latest[e.Granted] = now
	if !there {
		if s.order = append(s.order, e.Granted); len(s.order) > maxIssued {
			delete(s.latest, s.order[0])
			s.order = s.order[1:]
		}
		return nil
	}
	if was.epoch == now.epoch || len(s.again) >= maxIssued {
		return nil
	}
	s.again = append(s.again, reissue{e.Granted, was, now})
	return &s.again[len(s.again)-1]
}

// whom says to whom a token was issued, and to whom again.
func (r *reissue) whom() string {
	to := clip(r.first.to, 60)
	switch {
	case r.first.to != r.again.to:
		return to + " and again to " + clip(r.again.to, 60)
	case r.first.session != r.again.session:
		return to + " and again to " + to + " in a later session"
	}
	return to + " twice"
}

// of says what the token was for, "" where that is not known.
func (r *reissue) of(s subjects) string {
	first, again := s.name(r.first.key), s.name(r.again.key)
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
func reissuesShown(v verdict.Violation) (out []reissue) {
	first := map[int64]issue{}
	for i := range v.Events {
		e := &v.Events[i]
		if e.W != history.Wiretap || e.Op != contract.OpAcquire || e.Stage != history.Answered || e.Granted == 0 {
			continue
		}
		now := issue{call: e.Call, at: e.T, key: e.Key, to: string(e.Proc), session: e.Session}
		if was, there := first[e.Granted]; there {
			out = append(out, reissue{e.Granted, was, now})
		} else {
			first[e.Granted] = now
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].first.at < out[b].first.at })
	return out
}

// issuedTwice cuts from a violation that tells which tokens a store has issued twice what all of them have in common:
// how many there are, and how that came. ok is false for any other violation.
func issuedTwice(v verdict.Violation) (common string, ok bool) {
	common, _, ok = strings.Cut(v.Sentence, ": ")
	return common, ok && strings.Contains(common, " issued twice")
}

// tell is a violation in one sentence that can be read: ids are short, and of tokens that were issued twice those are named
// that the evidence shows. found is how many were.
func tell(v verdict.Violation, s subjects, found int64) string {
	common, ok := issuedTwice(v)
	pairs := reissuesShown(v)
	if !ok || len(pairs) == 0 {
		return brief(v.Sentence)
	}
	var to []string
	for i := range pairs {
		p := &pairs[i]
		words := "to " + p.whom()
		if found > 1 {
			words = token(p.token) + " " + words
		}
		if of := p.of(s); of != "" {
			words += " (" + of + ")"
		}
		to = append(to, words)
	}
	said := list(to)
	if more := found - int64(len(pairs)); more > 0 {
		said = strings.Join(to, ", ") + ", and " + group(more) + " more"
	}
	return brief(common + ": " + said)
}

// twiceIn is how many tokens the verdict says were issued twice.
func twiceIn(run verdict.Run) int64 {
	n, _ := danger(run, "issued_twice")
	return n
}

// maxReissued is how many tokens the page lists that were issued twice.
const maxReissued = 300

// reissueView is one row of that list.
type reissueView struct{ Token, Of, Issued string }

// reissuesView lists by token all that the history holds, as far as there is room, and says what it is a list of.
func reissuesView(again []reissue, s subjects) (rows []reissueView, title string) {
	again = slices.Clone(again)
	slices.SortStableFunc(again, func(a, b reissue) int { return cmp.Compare(a.token, b.token) })
	for i := range again[:min(len(again), maxReissued)] {
		r := &again[i]
		to := clip(r.again.to, 60)
		if r.first.to == r.again.to && r.first.session != r.again.session {
			to += ", in a later session,"
		}
		rows = append(rows, reissueView{token(r.token), r.of(s), fmt.Sprintf("to %s at %s, again to %s at %s",
			clip(r.first.to, 60), seconds(micros(r.first.at)), to, seconds(micros(r.again.at)))})
	}
	title = "Which tokens were issued twice, and to whom: " + count(int64(len(again)), "token", "tokens")
	if len(again) > maxReissued {
		title = fmt.Sprintf("The first %d of %s tokens issued twice, and to whom", maxReissued, group(int64(len(again))))
	}
	return rows, title
}
