package proxy_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"fenceproof/system/wire"

	"github.com/google/uuid"
)

// badRequest is a good R1 with one thing wrong.
type badRequest struct {
	name    string
	method  string            // POST when ""
	path    string            // R1's when ""
	headers map[string]string // replaces; "" removes
	field   string            // body field to replace by value; with value absent{} to remove
	value   any
	raw     *string // the whole body
	want    wire.Code
	names   string // what the message must name
}

type absent struct{}

func content(s string) *string { return &s }

func badRequests() []badRequest {
	cases := []badRequest{
		{name: "no owner", headers: map[string]string{wire.HeaderOwner: ""}, want: wire.InvalidRequest, names: wire.HeaderOwner},
		{name: "long owner", headers: map[string]string{wire.HeaderOwner: strings.Repeat("x", 65)}, want: wire.InvalidRequest, names: wire.HeaderOwner},
		{name: "owner that is no text", headers: map[string]string{wire.HeaderOwner: "a\xffb"}, want: wire.InvalidRequest, names: wire.HeaderOwner},
		{name: "no token", headers: map[string]string{wire.HeaderToken: ""}, want: wire.InvalidToken, names: wire.HeaderToken},
		{name: "no idempotency key", headers: map[string]string{wire.HeaderIdempotency: ""}, want: wire.InvalidRequest, names: wire.HeaderIdempotency},
		{name: "huge body", raw: content(`{"payoutId":"` + strings.Repeat("x", 1<<20) + `"}`), want: wire.InvalidRequest, names: "1048576"},
		{name: "unknown field", field: "token", value: 41, want: wire.InvalidRequest, names: "token"},
		{name: "field in another case", field: "PayoutId", value: "x", want: wire.InvalidRequest, names: "PayoutId"},
		{name: "no body", raw: content(""), want: wire.InvalidRequest},
		{name: "half a body", raw: content(`{"payoutId":`), want: wire.InvalidRequest},
		{name: "two bodies", raw: content(`{}{}`), want: wire.InvalidRequest},
		{name: "an array", raw: content(`[]`), want: wire.InvalidRequest},
		{name: "null", raw: content(`null`), want: wire.InvalidRequest},
		{name: "GET", method: http.MethodGet, want: wire.MethodNotAllowed},
		{name: "PUT", method: http.MethodPut, want: wire.MethodNotAllowed},
		{name: "DELETE", method: http.MethodDelete, want: wire.MethodNotAllowed},
		{name: "another path", path: "/v1/rail/submission", want: wire.NotFound},
		{name: "unknown account", field: "accountId", value: uuid.NewString(), want: wire.NotFound, names: "accountId"},
		{name: "unknown payout", field: "payoutId", value: uuid.NewString(), want: wire.NotFound, names: "payoutId"},
	}
	for _, token := range []string{"0", "-1", "9223372036854775808", "+41", "041", "4 1", "1e3", "0x29", "41.0", "４１", "abc", "18446744073709551657"} {
		cases = append(cases, badRequest{name: "token " + token, headers: map[string]string{wire.HeaderToken: token}, want: wire.InvalidToken, names: wire.HeaderToken})
	}
	for field, values := range map[string][]any{
		"payoutId":       {absent{}, nil, 7, "", "p-1", strings.ToUpper(uuid.NewString()), "urn:uuid:" + uuid.NewString(), strings.ReplaceAll(uuid.NewString(), "-", "")},
		"accountId":      {absent{}, nil, true, "acct-7", "{" + uuid.NewString() + "}"},
		"amountMinor":    {absent{}, nil, 0, -1, "2500", 2.5, json.Number("1e3"), json.Number("9223372036854775808")},
		"currency":       {absent{}, nil, 978, "", "EU", "eur", "EURO", "€€€"},
		"beneficiaryRef": {absent{}, nil, 1, "", strings.Repeat("x", 129), []int{}},
	} {
		for _, v := range values {
			b, _ := json.Marshal(v)
			cases = append(cases, badRequest{name: field + " " + string(b), field: field, value: v, want: wire.InvalidRequest, names: field})
		}
	}
	return cases
}

func (c badRequest) build(s *stage) *http.Request {
	body := maps.Clone(s.body())
	if c.field != "" {
		body[c.field] = c.value
		if _, gone := c.value.(absent); gone {
			delete(body, c.field)
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		s.Fatal(err)
	}
	if c.raw != nil {
		text = []byte(*c.raw)
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.path == "" {
		c.path = "/v1/rail/submissions"
	}
	r, err := http.NewRequestWithContext(s.Context(), c.method, s.url+c.path, bytes.NewReader(text))
	if err != nil {
		s.Fatal(err)
	}
	headers := map[string]string{wire.HeaderOwner: "executor-1", wire.HeaderToken: "41", wire.HeaderIdempotency: "payout-" + s.payout}
	maps.Copy(headers, c.headers)
	for name, v := range headers {
		if v != "" {
			r.Header[http.CanonicalHeaderKey(name)] = []string{v}
		}
	}
	return r
}

func TestABadRequestIsAnsweredWithTheEnvelopeAndLeavesNothing(t *testing.T) {
	noLeak(t)
	r := newRail(t, acks)
	s := newStage(t, r.url, setting{})
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	statuses := map[wire.Code]int{wire.InvalidRequest: 400, wire.InvalidToken: 400, wire.MethodNotAllowed: 405, wire.NotFound: 404}
	for _, c := range badRequests() {
		res, err := client.Do(c.build(s))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		var e wire.Error
		if err != nil || json.Unmarshal(text, &e) != nil || e.Code != c.want || res.StatusCode != statuses[c.want] || e.TraceID == "" || e.RetrySafe {
			t.Errorf("%s: answered %d %s (%v), want %s", c.name, res.StatusCode, text, err, c.want)
		}
		if !strings.Contains(e.Message, c.names) {
			t.Errorf("%s: the message does not name %s: %s", c.name, c.names, e.Message)
		}
	}
	if r.count() != 0 || s.mark() != 0 || len(s.rows()) != 0 {
		t.Errorf("forwarded %d, mark %d, rows %+v; want nothing", r.count(), s.mark(), s.rows())
	}
	if _, err := s.submit(41); err != nil {
		t.Errorf("the same request without a fault: %v", err)
	}
}

func TestAHeaderGivenTwiceIsRefused(t *testing.T) {
	r := newRail(t, acks)
	s := newStage(t, r.url, setting{})
	for _, name := range []string{wire.HeaderOwner, wire.HeaderToken, wire.HeaderIdempotency} {
		req := badRequest{}.build(s)
		req.Header.Add(name, "42")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("two headers %s: %d", name, res.StatusCode)
		}
	}
	if r.count() != 0 || s.mark() != 0 {
		t.Errorf("forwarded %d, mark %d", r.count(), s.mark())
	}
}
