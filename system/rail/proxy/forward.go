package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// outcome is what became of a forwarded submission, as its row holds it.
type outcome string

const (
	acked    outcome = "ACKED"    // money has moved
	rejected outcome = "REJECTED" // the rail declined: no money has moved and none will
	timeout  outcome = "TIMEOUT"  // nobody knows
)

// declined is the code of the rail's 402.
const declined = "DECLINED"

// Limits of the rail's answer, in bytes.
const (
	maxAnswer    = 64 << 10
	maxReference = 128
)

// idleConnections are kept to the rail; more than the accounts worked at once would help nobody.
const idleConnections = 64

var errTooLate = errors.New("the time of the submission is over")

// rail forwards submissions. It sends each one at most once, whatever happens: no redirect is followed, and the
// transport cannot send a request again, because it has a body and no GetBody.
type rail struct {
	url  string // of S1
	http *http.Client
}

func newRail(base string) *rail {
	return &rail{url: base + "/submit", http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dialPunctual,
			MaxIdleConnsPerHost:    idleConnections,
			IdleConnTimeout:        30 * time.Second,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxAnswer,
		},
	}}
}

func (r *rail) close() { r.http.CloseIdleConnections() }

// transfer is the body of S1.
type transfer struct {
	ClientRef   string `json:"clientRef"`
	AmountMinor int64  `json:"amountMinor"`
	Currency    string `json:"currency"`
}

// forward sends t to the rail once. Only two answers are definite: a whole, well-formed acknowledgement, and a whole,
// well-formed decline. Everything else, an error included, is unknown, and the error says why.
func (r *rail) forward(ctx context.Context, t transfer) (outcome, string, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return timeout, "", fmt.Errorf("encode the transfer: %w", err)
	}
	deadline, _ := ctx.Deadline()
	req, err := http.NewRequestWithContext(until(ctx, deadline), http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return timeout, "", fmt.Errorf("address the rail: %w", err)
	}
	req.GetBody = nil // without it the transport has no second copy to send
	req.Header.Set("Content-Type", "application/json")
	res, err := r.http.Do(req)
	if err != nil {
		return timeout, "", fmt.Errorf("call the rail: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return timeout, "", fmt.Errorf("read the rail's answer %d: %w", res.StatusCode, err)
	}
	if len(text) > maxAnswer {
		return timeout, "", fmt.Errorf("the rail's answer %d is larger than %d bytes", res.StatusCode, maxAnswer)
	}
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return timeout, "", fmt.Errorf("the rail's answer %d is %q and no JSON", res.StatusCode, res.Header.Get("Content-Type"))
	}
	return understand(res.StatusCode, text)
}

// understand reads the rail's whole answer.
func understand(status int, text []byte) (outcome, string, error) {
	var answer struct {
		RailReference string    `json:"railReference"`
		AcceptedAt    time.Time `json:"acceptedAt"`
		Code          string    `json:"code"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return timeout, "", fmt.Errorf("the rail's answer %d is not what it says it is: %w", status, err)
	}
	switch {
	case status == http.StatusOK && reference(answer.RailReference) && !answer.AcceptedAt.IsZero():
		return acked, answer.RailReference, nil
	case status == http.StatusPaymentRequired && answer.Code == declined:
		return rejected, "", nil
	}
	return timeout, "", fmt.Errorf("the rail's answer %d is neither an acknowledgement nor a decline", status)
}

// reference tells whether s can be a rail reference: printable ASCII of a sane length.
func reference(s string) bool {
	for _, b := range []byte(s) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxReference
}

// punctual is a connection to the rail that takes nothing after the deadline of the submission it carries. A process that
// was stopped while it dialled or waited for a turn does not forward when it goes on; there is no later place to look.
type punctual struct {
	net.Conn
	deadline atomic.Pointer[time.Time]
}

func (p *punctual) Write(b []byte) (int, error) {
	if d := p.deadline.Load(); d == nil || !time.Now().Before(*d) {
		return 0, errTooLate
	}
	return p.Conn.Write(b)
}

// dialPunctual connects to the rail.
func dialPunctual(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &punctual{Conn: c}, nil
}

// until sets the deadline of the connection that a request gets, before anything of it is written.
func until(ctx context.Context, deadline time.Time) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if p, ok := got.Conn.(*punctual); ok {
			p.deadline.Store(&deadline)
		}
	}})
}
