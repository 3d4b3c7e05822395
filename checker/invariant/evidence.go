package invariant

import (
	"cmp"
	"maps"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// maxEvidence is how many events prove a violation at most.
const maxEvidence = 6

// ring keeps the last few events of an account or key.
type ring struct {
	events [8]*history.Event
	next   int
}

func (r *ring) push(e *history.Event) {
	r.events[r.next] = e
	r.next = (r.next + 1) % len(r.events)
}

// keptOnce is the one copy of the event in hand, however many keep it.
type keptOnce struct{ event *history.Event }

// keep returns a copy of e, the event in hand, that may be kept. It shares the rows of a commit, which nobody changes, so
// few are kept at a time: one or two per account and key, and those that wait for another witness.
func (b *book) keep(e *history.Event) *history.Event {
	if b.kept.event == nil {
		c := *e
		c.Req, c.Res = "", ""
		b.kept.event = &c
	}
	return b.kept.event
}

// shownColumns are the columns that a proof shows of each table. The history has the whole rows.
var shownColumns = map[string][]string{
	"account":         {"account_id", "balance_minor", "fence"},
	"payout":          {"payout_id", "account_id", "amount_minor", "currency", "state", "claimed_by", "claim_token"},
	"ledger_entry":    {"payout_id", "account_id", "direction", "amount_minor", "fence"},
	"rail_submission": {"submission_id", "payout_id", "presented_token", "outcome", "rail_reference"},
	"rail_high_water": {"account_id", "highest_token"},
	"lock_entry":      {"lock_key", "owner_id", "session_id", "fencing_token", "acquired_at", "expires_at"},
	"lock_revocation": {"lock_key", "prev_owner", "prev_token", "token_floor", "operator", "reason"},
}

// abridged is e without bodies and without what its rows say besides what invariants are about.
func abridged(e *history.Event) history.Event {
	c := *e
	c.Req, c.Res, c.Changes = "", "", nil
	for i := range e.Changes {
		ch := &e.Changes[i]
		if columns := shownColumns[ch.Table]; columns != nil {
			c.Changes = append(c.Changes, history.Change{Table: ch.Table, Kind: ch.Kind, Old: pick(ch.Old, columns), New: pick(ch.New, columns)})
		}
	}
	return c
}

func pick(row map[string]string, columns []string) map[string]string {
	if row == nil {
		return nil
	}
	picked := make(map[string]string, len(columns))
	for _, c := range columns {
		if v, ok := row[c]; ok {
			picked[c] = v
		}
	}
	return picked
}

// evidence is the proof, and the answers that explain it while there is room, in order of I.
func (b *book) evidence(w want, proof []*history.Event) []history.Event {
	var out []history.Event
	for _, e := range proof {
		if e != nil && len(out) < maxEvidence {
			out = insertEvent(out, abridged(e))
		}
	}
	for _, r := range b.rings(w) {
		for i := range r.events {
			e := r.events[(r.next+len(r.events)-1-i)%len(r.events)] // the latest first
			if e != nil && len(out) < w.room(e) && w.explainedBy(e, b.accountOf(e)) {
				out = insertEvent(out, *e)
			}
		}
	}
	return out
}

// rings are where the answers that explain a violation may be: the grants first, then the writes.
func (b *book) rings(w want) []*ring {
	var rings []*ring
	if k := b.keys[cmp.Or(w.key, keyPrefix+w.account)]; k != nil {
		rings = append(rings, &k.recent)
	}
	if a := b.accounts[w.account]; a != nil {
		rings = append(rings, &a.recent)
	}
	return rings
}

// room is how many events there may be before e is left out. The answer to what was done wrongly always finds room; it
// often arrives last.
func (w *want) room(e *history.Event) int {
	if e.Op == w.op && e.Token == w.tokens[0] {
		return maxEvidence
	}
	return maxEvidence - 1
}

// insertEvent keeps events in order of I, each once.
func insertEvent(events []history.Event, e history.Event) []history.Event {
	at, there := slices.BinarySearchFunc(events, e.I, func(x history.Event, i int64) int {
		switch {
		case x.I < i:
			return -1
		case x.I > i:
			return 1
		}
		return 0
	})
	if there {
		return events
	}
	return slices.Insert(events, at, e)
}

// explainedBy tells whether the answer e, to a call about account, belongs to the story.
func (w *want) explainedBy(e *history.Event, account string) bool {
	if e.Stage != history.Answered {
		return false
	}
	token := e.Token
	switch {
	case e.Op == contract.OpAcquire && e.Granted > 0:
		token = e.Granted
	case !e.Op.Fenced():
		return false
	}
	if w.payout != "" && w.account == "" {
		return e.Payout == w.payout && e.Op == contract.OpSubmit // a story of the rail
	}
	if token != w.tokens[0] && token != w.tokens[1] {
		return false
	}
	return w.key != "" && e.Key == w.key || w.account != "" && account == w.account
}

// author of a token: the process that wrote under it to a, or was granted it; "" when nobody was seen to.
func (b *book) holder(a *account, token int64) string {
	find := func(r *ring) string {
		for _, e := range r.events {
			if e != nil && (e.Granted == token || e.Granted == 0 && e.Token == token) {
				return string(e.Proc)
			}
		}
		return ""
	}
	if name := find(&a.recent); name != "" {
		return name
	}
	if k := b.keys[keyPrefix+a.id]; k != nil {
		return find(&k.recent)
	}
	return ""
}

// railStory are the first answers to submissions of a payout.
func (b *book) railStory(id string) []*history.Event {
	if p := b.payouts[id]; p != nil {
		return p.submits[:]
	}
	return nil
}

// sortedKeys are the keys of m in order, so that the same history always gives the same verdict.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
