package invariant

import (
	"github.com/go-json-experiment/json"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// call is an open request of an operation that some fold judges, from the moment it was forwarded. It remembers what had
// been answered by then: that is the only order between two requests that the wiretap can vouch for.
type call struct {
	op      contract.Op
	token   int64
	payout  *payout
	account *account // nil: nobody could tell
	key     *lockKey
	replay  bool // the same request had been forwarded before and may have had its effect

	accepted accepted       // the highest token accepted at this call's fence point before it was forwarded
	ever     answers        // acquire: for the key, before it was forwarded
	since    answers        // the same of the epoch in which it was
	sent     *history.Event // its forwarding, where it may be needed as evidence
}

// stale tells whether a higher token had been accepted at the call's fence point when it was forwarded.
func (c *call) stale() bool { return c.accepted.token > c.token }

// spans tells whether c, whose answer is in hand, was sent before the lock store's present epoch: it had its effect in that
// one, in this one, or in none, and nobody knows which.
func (b *book) spans(c *call) bool { return c != nil && c.sent != nil && c.sent.T <= b.begun }

// callEnd is what the answer to a call says.
type callEnd struct {
	effective bool // the operation had its effect, and had it now
	judged    bool // the answer is definite and comes from a judgement of token and state, not of the request's form
	fencedOut bool
	unsure    bool // a post whose answer does not show whose entries it bears
}

// priorCall counts the requests of one payout, operation and token that may have had an effect. Each such triple has one
// effect at most; every further request is a replay, whatever token stands at the fence by then.
type priorCall struct {
	op    contract.Op
	token int64
	n     int
}

// maxPrior bounds the memory of one payout. Requests under older tokens are left out of the judgement and counted.
const maxPrior = 32

func (p *payout) noteRequest(op contract.Op, token int64) (replay bool) {
	for i := range p.prior {
		if q := &p.prior[i]; q.op == op && q.token == token {
			q.n++
			return true
		}
	}
	if len(p.prior) == maxPrior {
		p.forgotten = max(p.forgotten, p.prior[0].token)
		p.prior = append(p.prior[:0], p.prior[1:]...)
	}
	p.prior = append(p.prior, priorCall{op, token, 1})
	return false
}

// withdraw forgets a request that certainly had no effect.
func (p *payout) withdraw(op contract.Op, token int64) {
	for i := range p.prior {
		if q := &p.prior[i]; q.op == op && q.token == token {
			if q.n--; q.n == 0 {
				p.prior = append(p.prior[:i], p.prior[i+1:]...)
			}
			return
		}
	}
}

func (p *payout) noteSubmit(e *history.Event) {
	for i := range p.submits {
		if p.submits[i] == nil {
			p.submits[i] = e
			return
		}
	}
}

func followed(op contract.Op) bool {
	return op.Fenced() || op == contract.OpAcquire || op == contract.OpRenew || op == contract.OpRevoke
}

// enterCall follows a call from its forwarding on and reads its answer.
func (b *book) enterCall(e *history.Event) {
	if e.Stage == history.Answered {
		b.operations[e.Op]++
		b.countRefusal(e, b.calls[e.Call])
	}
	if !followed(e.Op) {
		return
	}
	switch e.Stage {
	case history.Forwarded:
		b.call = b.openCall(e)
	case history.Answered:
		b.call = b.calls[e.Call]
		b.ended = readEnd(e)
		if b.call == nil && e.Type == contract.OK {
			b.hole(history.Wiretap, "call %d was answered, but nothing shows that it was forwarded", e.Call)
		}
	}
}

func (b *book) openCall(e *history.Event) *call {
	c := &call{}
	if n := len(b.spare); n > 0 {
		c, b.spare = b.spare[n-1], b.spare[:n-1]
	}
	*c = call{op: e.Op, token: e.Token}
	if e.Op.Fenced() {
		c.payout = b.payout(e.Payout)
		if c.account = c.payout.account; e.Op == contract.OpSubmit && e.Account != "" {
			c.account = b.account(e.Account) // the proxy fences the account that the request names
		}
		if c.account != nil {
			c.accepted = *c.account.point(e.Op)
		}
		if e.Op.AtPayment() {
			// Where the wiretap has a hole, the first request may lie in it: any request may be a replay.
			c.replay = c.payout.noteRequest(e.Op, e.Token) || b.lost[history.Wiretap]
		}
	} else {
		c.key = b.key(e.Key)
		c.ever, c.since = c.key.ever, *b.inEpoch(c.key)
	}
	if c.stale() || c.key != nil {
		c.sent = b.keep(e)
	}
	b.calls[e.Call] = c
	return c
}

// point is the highest token that the fence point of op is known to have accepted.
func (a *account) point(op contract.Op) *accepted {
	if op == contract.OpSubmit {
		return &a.rail
	}
	return &a.payment
}

// endCall enters the answer for the requests that are forwarded after it.
func (b *book) endCall(e *history.Event) {
	c := b.call
	if c == nil {
		return
	}
	delete(b.calls, e.Call)
	switch {
	case e.Op.Fenced():
		if b.ended.effective && c.account != nil {
			if p := c.account.point(e.Op); e.Token > p.token {
				p.raise(e.Token, b.keep(e), nil)
			}
		}
		if e.Type == contract.Fail && e.Op.AtPayment() {
			c.payout.withdraw(e.Op, e.Token)
		}
		if c.account != nil && (b.ended.effective || b.ended.fencedOut) {
			c.account.recent.push(b.keep(e))
		}
		if e.Op == contract.OpSubmit && !b.ended.fencedOut && e.Type != contract.Fail {
			c.payout.noteSubmit(b.keep(e))
		}
		c.payout.answer(e, b.ended)
	case e.Op == contract.OpAcquire && e.Type == contract.OK && e.Granted > 0:
		b.answer(c, e, e.Granted, func(a *answers) *accepted { return &a.granted })
		c.key.recent.push(b.keep(e))
	case e.Op == contract.OpRevoke && e.Type == contract.OK:
		if r := readRevocation(e); r.NewTokenFloor > 0 {
			b.answer(c, e, r.NewTokenFloor, func(a *answers) *accepted { return &a.floor })
		}
	}
	b.spare = append(b.spare, c)
}

func readEnd(e *history.Event) callEnd {
	end := callEnd{fencedOut: e.Code == contract.FencedOut}
	switch e.Status {
	case 0, 400, 404, 405, 408, 413, 415, 429:
	default:
		end.judged = e.Type != contract.Info && e.Status < 500
	}
	if e.Type != contract.OK {
		return end
	}
	switch e.Op {
	case contract.OpSubmit:
		end.effective = e.Outcome == contract.OutcomeAcked || e.Outcome == contract.OutcomeDuplicate || e.Outcome == contract.OutcomeRejected
	case contract.OpPost:
		// A post that finds the payout posted answers with the entries of whoever posted it, and writes nothing.
		token := readEntriesFence(e.Res)
		end.effective, end.unsure = token == e.Token, token == 0
	default:
		end.effective = true
	}
	return end
}

// readEntriesFence is the fence on the entries that a post answered, 0 where the answer does not show one.
func readEntriesFence(body string) int64 {
	var r struct {
		Entries []struct {
			Fence int64 `json:"fence"`
		} `json:"entries"`
	}
	if json.Unmarshal([]byte(body), &r) != nil || len(r.Entries) == 0 {
		return 0
	}
	return r.Entries[0].Fence
}

type revocation struct {
	RevokedToken  int64 `json:"revokedToken"`
	NewTokenFloor int64 `json:"newTokenFloor"`
}

func readRevocation(e *history.Event) revocation {
	var r revocation
	if json.Unmarshal([]byte(e.Res), &r) != nil {
		return revocation{}
	}
	return r
}

// countRefusal counts a FENCED_OUT by the resource that refused, and as danger met when the token was a stale one. c is
// the call where it is followed. A claim by T shuts out T − 1 by naming T − 1 itself as the highest, so that there the
// answer alone does not tell; a higher token accepted before the request was sent does.
func (b *book) countRefusal(e *history.Event, c *call) {
	if e.Code != contract.FencedOut || !e.Op.Fenced() || e.Type == contract.Info {
		return
	}
	b.refusals[resourceType(e)]++
	if e.Highest <= e.Token && (c == nil || !c.stale()) {
		return
	}
	if e.Op == contract.OpSubmit {
		b.staleRefusedRail++
	} else {
		b.staleRefusedPayment++
	}
}

// resourceType is details.resourceType of a FENCED_OUT.
func resourceType(e *history.Event) string {
	var r struct {
		Details struct {
			ResourceType string `json:"resourceType"`
		} `json:"details"`
	}
	if json.Unmarshal([]byte(e.Res), &r) == nil && r.Details.ResourceType != "" {
		return r.Details.ResourceType
	}
	if e.Op == contract.OpSubmit {
		return "rail"
	}
	return "account"
}
