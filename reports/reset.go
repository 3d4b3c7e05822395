package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// reset is a moment from which the lock store may know of less than it had answered.
type reset struct {
	at   int64 // ns
	what string
	msg  string // what it knows and what had been answered, as the nemesis has seen it
}

// maxResets bounds how many are remembered.
const maxResets = 1000

// resetBy says what each fault that begins an epoch does with the lock store.
var resetBy = map[contract.Op]string{
	"restore": "put back to an older state", "restore-unguarded": "put back to an older state",
	"failover": "replaced by its standby", "failover-async": "replaced by its standby",
}

// hear takes the faults that may have the lock store forget, once that was seen.
func (s *issued) hear(e *history.Event) {
	if what := resetBy[e.Op]; what != "" && e.Phase == "seen" && len(s.resets) < maxResets {
		s.resets = append(s.resets, reset{e.T, what, clip(e.Msg, 200)})
	}
}

// behind tells whether token was granted by a store that did not know of highest any more, which the same key had been
// granted with before: then the write is refused not because its holder is late but because the store went back.
func (s *issued) behind(token, highest int64) bool {
	if len(s.resets) == 0 || token > highest {
		return false
	}
	since := s.resets[len(s.resets)-1].at
	is, known := s.Latest(token)
	if !known || is.T <= since {
		return false
	}
	if token == highest { // under the token as it was issued before; else this is a retry
		return is.Over == is.Key
	}
	top, there := s.Latest(highest)
	return !there || top.T <= since || top.Key != is.Key
}

// between tells whether the store was reset after a and not after b.
func (s *issued) between(a, b int64) bool {
	return slices.ContainsFunc(s.resets, func(r reset) bool { return a < r.at && r.at <= b })
}

// sentence tells of it.
func (r reset) sentence() string {
	said := fmt.Sprintf("The lock store was %s at %s", r.what, seconds(micros(r.at)))
	if r.msg != "" {
		said += ": " + r.msg
	}
	return said
}

// forgotten tells what came of a store that forgot: which writes were refused for it, and which tokens had been issued before.
func (t *telling) forgotten() (out []string) {
	var least, most, highest int64
	var n int64
	var at string
	var before []string
	for _, c := range t.calls {
		if c.before != nil {
			before = append(before, token(c.granted)+" (to "+clip(string(c.before.First.Proc), 60)+" at "+seconds(micros(c.before.First.T))+")")
		}
		if c.behind {
			n++
			at = cmp.Or(at, pointName(c.point()))
			highest, most = max(highest, c.highest), max(most, c.token)
			if least == 0 || c.token < least {
				least = c.token
			}
		}
	}
	if n > 0 {
		under := "token " + token(least)
		if most > least {
			under = "tokens " + token(least) + " to " + token(most)
		}
		out = append(out, fmt.Sprintf("%s refused at the %s under %s, which were granted after that: it had accepted %s before",
			count(n, "write was", "writes were"), at, under, token(highest)))
	}
	if more := len(before) - 3; more > 0 {
		before = append(before[:3], fmt.Sprintf("%d more", more))
	}
	if len(before) > 0 {
		noun := "Token"
		if len(before) > 1 {
			noun = "Tokens"
		}
		out = append(out, noun+" "+list(before)+" had been issued before")
	}
	return out
}

// resetBefore is the last reset that the story depends on; nil where it depends on none.
func (t *telling) resetBefore() *reset {
	var first int64 = -1
	for _, c := range t.calls {
		if (c.behind || c.before != nil) && (first < 0 || c.received < first) {
			first = c.received
		}
	}
	for i := len(t.resets) - 1; i >= 0; i-- {
		if t.resets[i].at <= first {
			return &t.resets[i]
		}
	}
	return nil
}

// resetEntries is the reset that the story depends on, where it lies within.
func (t *telling) resetEntries(lanes *index, from int64) []entry {
	r, lane := t.resetBefore(), lanes.find(string(contract.LockServer))
	if r == nil || r.at < from || lane < 0 {
		return nil
	}
	return []entry{{place: place{r.at, 0, 0}, step: step{At: micros(r.at), Kind: stepNote, From: lane, To: lane,
		Text: []string{"lock store " + r.what}, Tone: toneFault, Who: "nemesis"}}}
}

// ours tells whether a call about a lock, or a lease, belongs to a story: it is about the account's key, and no store that
// issued the token before anybody worked on the payout has anything to do with it.
func (g *gatherer) ours(t *telling, account string, at int64) bool {
	return (account == "" || t.of.account == "" || account == t.of.account) && !g.survey.issued.between(at, t.of.asked)
}

// reset tells of what had the lock store go back, of the latest if it was before the payout was there.
func (t *transcript) reset(e *history.Event) {
	what := resetBy[e.Op]
	if what == "" || e.Phase != "seen" {
		return
	}
	told := utterance{place{at: e.T, i: e.I}, line(e.Target, "%s: %s", strings.ToUpper(what), e.Msg)}
	switch {
	case t.over:
	case t.account != "":
		t.lines = append(t.lines, told)
	default:
		t.resets = []utterance{told}
	}
}

// reissued is what to add to a grant of a token that had been issued before.
func (t *transcript) reissued() string {
	if t.again == nil {
		return ""
	}
	t.lines, t.resets = append(t.lines, t.resets...), nil
	return fmt.Sprintf(", which %s had been granted at %s", t.again.First.Proc, seconds(micros(t.again.First.T)))
}

// behind is what to add to a refusal that came because the store went back.
func (t *transcript) behind(e *history.Event) string {
	if e.Code != contract.FencedOut || !t.issued.behind(e.Token, e.Highest) {
		return ""
	}
	t.lines, t.resets = append(t.lines, t.resets...), nil
	return ", which was accepted before the lock store went back"
}
