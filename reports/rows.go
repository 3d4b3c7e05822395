package reports

import (
	"encoding/json"
	"strings"
)

// The long lists are rows, not objects: at ten thousand leases the names would outweigh the values.

func (p payout) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.id, p.account, p.from, p.to, strings.Join(p.tokens, " "), p.state, p.moved, p.atRail, p.atRow})
}

func (l lease) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{l.client, l.account, l.from, l.to, l.token, l.end})
}

func (m mark) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{m.at, m.client, m.account, m.payout, m.point, m.op, m.token, m.highest})
}

func (r rung) MarshalJSON() ([]byte, error) { return json.Marshal([]any{r.at, r.value}) }
