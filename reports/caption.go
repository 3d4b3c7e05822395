package reports

import (
	"sort"
	"strconv"
	"strings"

	"fenceproof/checker/contract"
)

// caption tells a story in a few sentences, from the evidence alone.
func (t *telling) caption(bands []band, lanes []string) string {
	var out []string
	if r := t.resetBefore(); r != nil {
		out = append(out, r.sentence())
		out = append(out, t.forgotten()...)
	}
	holders := t.holders()
	for _, h := range holders {
		switch {
		case len(holders) == 1:
			out = append(out, h.client+" worked under token "+token(h.token))
		case h.first:
			out = append(out, h.client+" came first, with token "+token(h.token))
		case h.next:
			out = append(out, h.client+" took over with token "+token(h.token))
		}
	}
	if s := stops(bands, lanes); s != "" {
		out = append(out, s)
	}
	out = append(out, t.refusals()...)
	out = append(out, t.landed()...)
	switch t.of.moved {
	case 0:
		out = append(out, "No money moved")
	case 1:
		out = append(out, "Money moved once")
	default:
		out = append(out, "Money moved "+strconv.Itoa(t.of.moved)+" times")
	}
	if t.of.state != "" {
		out[len(out)-1] += "; the payout ended " + clip(string(t.of.state), 40)
	}
	return strings.Join(out, ". ") + "."
}

// holder is a client with a token that it used for the payout.
type holder struct {
	client      string
	token       int64
	first, next bool
}

// holders lists who worked on the payout, in the order of first use; the first, and everybody with a higher token.
func (t *telling) holders() []holder {
	calls := append([]*call(nil), t.calls...)
	sort.SliceStable(calls, func(a, b int) bool { return calls[a].received < calls[b].received })
	var out []holder
	seen := map[int64]bool{}
	var highest int64
	for _, c := range calls {
		if !c.op.Fenced() || c.token == 0 || seen[c.token] || c.behind { // who was behind took over from nobody
			continue
		}
		seen[c.token] = true
		out = append(out, holder{client: c.from, token: c.token, first: highest == 0, next: highest != 0 && c.token > highest})
		highest = max(highest, c.token)
	}
	if len(out) > 6 {
		out = out[:6]
	}
	return out
}

// stops says who was stopped meanwhile.
func stops(bands []band, lanes []string) string {
	var words []string
	for _, b := range bands {
		if what, ok := strings.CutPrefix(b.Text, "pause "); ok && b.Lane >= 0 && len(words) < 4 {
			words = append(words, lanes[b.Lane]+" was stopped for "+what)
		}
	}
	return list(words)
}

// refusals says which stale writes were refused, and where.
func (t *telling) refusals() []string {
	type key struct {
		client, at string
		token      int64
	}
	var order []key
	ops := map[key][]string{}
	for _, c := range t.calls {
		point := c.point()
		if point == "" || c.token >= c.highest || c.behind {
			continue
		}
		k := key{c.from, "the " + pointName(point), c.token}
		if ops[k] == nil {
			order = append(order, k)
		}
		ops[k] = append(ops[k], string(c.op))
	}
	var out []string
	for _, k := range order {
		noun := " was"
		if len(ops[k]) > 1 {
			noun = " were"
		}
		out = append(out, k.client+"’s stale "+list(ops[k])+" under token "+token(k.token)+noun+" refused at "+k.at)
		if len(out) == 4 {
			break
		}
	}
	return out
}

// landed says which stale writes were not refused.
func (t *telling) landed() []string {
	var out []string
	for c := range t.staleWrites() {
		out = append(out, c.from+"’s stale "+string(c.op)+" under token "+token(c.token)+" was not refused")
	}
	sort.Strings(out)
	return out[:min(len(out), 3)]
}

// staleWrites finds the writes that were forwarded after a higher token had been accepted at the same server, and were
// answered as done all the same.
func (t *telling) staleWrites() map[*call]bool {
	out := map[*call]bool{}
	for _, c := range t.calls {
		if !c.op.Fenced() || c.answered < 0 || c.status/100 != 2 {
			continue
		}
		for _, other := range t.calls {
			if other.op.Fenced() && other.to == c.to && other.token > c.token && other.status/100 == 2 && other.answered >= 0 && other.answered < max(c.forwarded, c.received) {
				out[c] = true
			}
		}
	}
	return out
}

// pointName is a fence point as sentences call it.
func pointName(point string) string {
	switch point {
	case "account":
		return "account row"
	case "ledger":
		return "ledger"
	}
	return point
}

// opName is an operation as sentences call it.
func opName(op contract.Op) string {
	if op == contract.OpSubmit {
		return "submit to the rail"
	}
	return strings.ReplaceAll(string(op), "_", " ")
}
