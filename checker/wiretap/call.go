package wiretap

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// call is one call on its way: what all its events have in common, and what it has brought so far.
type call struct {
	relay  *Relay
	event  history.Event // the part that every stage repeats
	req    string        // the request's body as events keep it
	method string
	waits  bool // an acquire that waits: its client may call it back
	// reported is the outcome that a P7 reports; it stands in the events from answered on.
	reported contract.Outcome
}

// newCall reads what the request in m says. Nothing in it can fail: what is not there or makes no sense stays empty, as
// the relay serves any implementation of the contract.
func (r *Relay) newCall(m *message) *call {
	method, target, _ := m.request()
	path, query, _ := strings.Cut(originForm(target), "?")
	op, subject := contract.Classify(method, path)
	c := &call{relay: r, method: method, req: clip(m.body), event: history.Event{
		Proc: r.cfg.Link.From, Op: op, Call: calls.Add(1), Link: r.link, Owner: m.owner, Token: decimal(m.token),
	}}
	if s, err := url.PathUnescape(subject); err == nil {
		subject = s
	}
	switch op {
	case contract.OpHeartbeat, contract.OpCloseSession:
		c.event.Session = subject
	case contract.OpAcquire, contract.OpRenew, contract.OpRelease, contract.OpInspect, contract.OpRevoke:
		c.event.Key = subject
	case contract.OpClaim, contract.OpPost, contract.OpGetPayout, contract.OpSubmitted, contract.OpOutcome, contract.OpResolve:
		c.event.Payout = subject
	case contract.OpGetAccount:
		c.event.Account = subject
	case contract.OpListPayouts, contract.OpLookup:
		q, _ := url.ParseQuery(query) // with an error it holds what could be read
		c.event.Account, c.event.Payout = q.Get("accountId"), q.Get("clientRef")
	}
	c.readRequestBody(m.body)
	return c
}

// originForm cuts scheme and host off an absolute target.
func originForm(target string) string {
	if strings.HasPrefix(target, "/") {
		return target
	}
	if _, rest, ok := strings.Cut(target, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
	}
	return target
}

func (c *call) readRequestBody(body []byte) {
	switch c.event.Op {
	case contract.OpOpenSession, contract.OpAcquire, contract.OpRenew, contract.OpRelease,
		contract.OpOutcome, contract.OpSubmit, contract.OpTransfer:
	default:
		return
	}
	var b struct {
		OwnerID    word `json:"ownerId"`
		SessionID  word `json:"sessionId"`
		WaitMillis word `json:"waitMillis"`
		PayoutID   word `json:"payoutId"`
		AccountID  word `json:"accountId"`
		ClientRef  word `json:"clientRef"`
		Outcome    word `json:"outcome"`
	}
	read(body, &b)
	e := &c.event
	switch e.Op {
	case contract.OpOpenSession:
		if e.Owner == "" {
			e.Owner = string(b.OwnerID)
		}
	case contract.OpAcquire:
		e.Session = string(b.SessionID)
		c.waits = decimal(string(b.WaitMillis)) > 0
	case contract.OpRenew, contract.OpRelease:
		e.Session = string(b.SessionID)
	case contract.OpOutcome:
		c.reported = contract.Outcome(b.Outcome)
	case contract.OpSubmit:
		e.Payout, e.Account = string(b.PayoutID), string(b.AccountID)
	case contract.OpTransfer:
		e.Payout = string(b.ClientRef)
	}
}

func (c *call) mark(stage history.Stage, t contract.Type, msg string) {
	e := c.event
	e.Stage, e.Type, e.Msg = stage, t, msg
	c.relay.record(e)
}

func (c *call) received() {
	e := c.event
	e.Stage, e.Type, e.Req = history.Received, contract.Invoke, c.req
	c.relay.record(e)
}

func (c *call) forwarded(msg string) { c.mark(history.Forwarded, contract.Invoke, msg) }

// unanswered completes a call of which nobody knows what became: status 0.
func (c *call) unanswered(msg string) {
	c.event.Outcome = c.reported
	c.mark(history.Answered, contract.Info, msg)
}

// torn completes a call of whose answer only a part came, head and all. That part goes on to the client, and what it tells
// the client nobody knows: so it stands in the event.
func (c *call) torn(part []byte, msg string) {
	e := c.event
	e.Stage, e.Type, e.Msg, e.Res, e.Outcome = history.Answered, contract.Info, msg, clip(part), c.reported
	c.relay.record(e)
}

// answered completes a call with the server's whole answer, and fills in what the answer says for the stages after it.
func (c *call) answered(status int, body []byte) {
	e := &c.event
	e.Status = status
	c.readAnswerBody(body)
	e.Type, e.Outcome = contract.Completion(e.Op, status, e.Code)
	if e.Outcome == "" {
		e.Outcome = c.reported
	}
	full := *e
	full.Stage = history.Answered
	if e.Op != contract.OpListPayouts && e.Op != contract.OpLookup {
		full.Res = clip(body)
	}
	c.relay.record(full)
}

func (c *call) readAnswerBody(body []byte) {
	e := &c.event
	success := e.Status >= 200 && e.Status < 300
	if len(body) == 0 || success && !tells(e.Op) {
		return
	}
	var b struct {
		Code      word    `json:"code"`
		Details   details `json:"details"`
		Token     word    `json:"fencingToken"`
		SessionID word    `json:"sessionId"`
		AccountID word    `json:"accountId"`
	}
	whole := read(body, &b)
	if !success {
		e.Code = contract.Code(b.Code)
		if e.Code == contract.FencedOut {
			e.Highest = decimal(string(b.Details.HighestToken))
		}
		return
	}
	switch e.Op {
	case contract.OpAcquire, contract.OpRenew:
		if whole { // of a number that broke off the rest is another token
			e.Granted = decimal(string(b.Token))
		}
	case contract.OpOpenSession:
		e.Session = string(b.SessionID)
	case contract.OpClaim, contract.OpGetPayout:
		e.Account = string(b.AccountID)
	}
}

// tells lists the operations whose successful answer says something that the request did not.
func tells(op contract.Op) bool {
	switch op {
	case contract.OpAcquire, contract.OpRenew, contract.OpOpenSession, contract.OpClaim, contract.OpGetPayout:
		return true
	}
	return false
}

// decimal reads a token or another count, 0 where s is none.
func decimal(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || s[0] < '1' || s[0] > '9' {
		return 0
	}
	return n
}

// clip is b as events keep it: at most BodyLimit bytes, no character cut in two.
func clip(b []byte) string {
	if len(b) <= history.BodyLimit {
		return string(b)
	}
	b = b[:history.BodyLimit]
	for range utf8.UTFMax - 1 {
		if r, n := utf8.DecodeLastRune(b); r != utf8.RuneError || n != 1 {
			break
		}
		b = b[:len(b)-1]
	}
	return string(b)
}

// word is a JSON string or number as it stands; any other value is none.
type word string

func (w *word) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	switch in.PeekKind() {
	case '"', '0':
		t, err := in.ReadToken()
		*w = word(t.String())
		return err
	}
	return in.SkipValue()
}

// details is the part of an error's details that the history needs; anything but an object has none.
type details struct{ HighestToken word }

func (d *details) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	if in.PeekKind() != '{' {
		return in.SkipValue()
	}
	var b struct {
		HighestToken word `json:"highestToken"`
	}
	err := json.UnmarshalDecode(in, &b)
	d.HighestToken = b.HighestToken
	return err
}

// read reads what it can of a body, and tells whether that is all. Where the body is no JSON, what was read before stays.
func read(body []byte, into any) (whole bool) {
	return json.Unmarshal(body, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil
}
