package reports

import (
	"strconv"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/reissue"
)

// call joins the stages of one call. Times are nanoseconds; −1 stands for a stage that never came.
type call struct {
	id                      int64
	op                      contract.Op
	from, to                string
	payout, account, key    string
	token, granted, highest int64
	received, forwarded     int64
	answered, done          int64
	receivedI, answeredI    int64
	status                  int
	code                    contract.Code
	outcome                 contract.Outcome
	typ                     contract.Type
	ttl                     int64 // of an acquire or renew, nanoseconds; 0: the request did not say
	amount                  string
	ledger                  bool          // FENCED_OUT came from the ledger's row rather than the account's
	lost                    bool          // the answer never reached the client
	dup                     bool          // made on purpose as a repetition
	before                  *reissue.Pair // the token that it was granted had been issued before
	behind                  bool          // it was refused because the lock store had gone back behind the fence point
}

// begin makes a call of its first event.
func begin(e *history.Event, links map[string]contract.Link) *call {
	link, ok := links[e.Link]
	if !ok {
		link, _ = contract.ParseLink(e.Link)
		links[e.Link] = link
	}
	c := &call{
		id: e.Call, op: e.Op, from: string(e.Proc), to: string(link.To),
		payout: e.Payout, account: firstOf(e.Account, accountOfKey(e.Key)), key: e.Key, token: e.Token,
		received: e.T, forwarded: -1, answered: -1, done: -1, receivedI: e.I, dup: e.DupOf != 0,
	}
	if c.from == "" {
		c.from = string(link.From)
	}
	switch e.Op {
	case contract.OpAcquire, contract.OpRenew:
		c.ttl = bodyNumber(e.Req, "ttlMillis") * 1_000_000
	case contract.OpSubmit, contract.OpTransfer:
		if n := bodyNumber(e.Req, "amountMinor"); n > 0 {
			c.amount = money(n, bodyString(e.Req, "currency"))
		}
	}
	return c
}

// advance notes a later stage.
func (c *call) advance(e *history.Event) {
	switch e.Stage {
	case history.Forwarded:
		c.forwarded = e.T
	case history.Answered:
		c.answered, c.answeredI = e.T, e.I
		c.status, c.code, c.outcome, c.typ = e.Status, e.Code, e.Outcome, e.Type
		c.granted, c.highest = e.Granted, e.Highest
		if c.op == contract.OpRevoke {
			c.token = bodyNumber(e.Res, "revokedToken")
		}
		c.ledger = c.code == contract.FencedOut && bodyString(e.Res, "resourceType") == "ledger"
	case history.Delivered:
		c.done = e.T
	case history.Lost:
		c.done, c.lost = e.T, true
	}
}

// point names the fence point that refused c: rail, account or ledger; "" when none did.
func (c *call) point() string {
	switch {
	case c.code != contract.FencedOut || !c.op.Fenced():
		return ""
	case c.op == contract.OpSubmit:
		return "rail"
	case c.ledger:
		return "ledger"
	}
	return "account"
}

// bodyNumber finds a number of a JSON body without decoding the whole: a history holds hundreds of thousands of them.
func bodyNumber(body, field string) int64 {
	rest, ok := bodyField(body, field)
	if !ok {
		return 0
	}
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseInt(rest[:n], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// bodyString does the same for a string without escapes.
func bodyString(body, field string) string {
	rest, ok := bodyField(body, field)
	if !ok || !strings.HasPrefix(rest, `"`) {
		return ""
	}
	value, _, ok := strings.Cut(rest[1:], `"`)
	if !ok || strings.Contains(value, `\`) {
		return ""
	}
	return value
}

func bodyField(body, field string) (string, bool) {
	_, rest, ok := strings.Cut(body, `"`+field+`"`)
	if !ok {
		return "", false
	}
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n"), ":")
	return strings.TrimLeft(rest, " \t\r\n"), ok
}
