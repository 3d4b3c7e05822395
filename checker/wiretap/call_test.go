package wiretap

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// What an event holds of a call, for every operation of the contract.
func TestAnEventHoldsWhatRequestAndAnswerSay(t *testing.T) {
	const big = "9223372036854775807"
	base := history.Event{W: history.Wiretap, Proc: link.From, Link: link.String()}
	with := func(op contract.Op, set func(*history.Event)) history.Event {
		e := base
		e.Op, e.Status, e.Type = op, 200, contract.OK
		set(&e)
		return e
	}
	headers := []string{"x-owner-id:  executor-2 ", "X-FENCING-TOKEN: " + big, "X-Idempotency-Key: payout-1"}
	for _, c := range []struct {
		method, target, body string
		status               int
		answer               string
		want                 history.Event
	}{
		{"POST", "/v1/sessions", `{"ownerId":"executor-2","ttlMillis":1000}`, 201, `{"sessionId":"s-1"}`,
			with(contract.OpOpenSession, func(e *history.Event) { e.Status, e.Session = 201, "s-1" })},
		{"POST", "/v1/sessions/s-1/heartbeat", `{}`, 410, `{"code":"SESSION_EXPIRED"}`,
			with(contract.OpHeartbeat, func(e *history.Event) {
				e.Session, e.Status, e.Code, e.Type = "s-1", 410, contract.SessionExpired, contract.Fail
			})},
		{"POST", "/v1/locks/payout%3Aa%2Fb/acquire", `{"x":[{"sessionId":"no"}],"sessionId":"s-1","waitMillis":5}`, 200, `{"later":{},"fencingToken":` + big + `}`,
			with(contract.OpAcquire, func(e *history.Event) { e.Key, e.Session, e.Granted = "payout:a/b", "s-1", 1<<63-1 })},
		{"POST", "/v1/locks/k/renew", `{"sessionId":"s-1"}`, 200, `{"fencingToken":"42"}`,
			with(contract.OpRenew, func(e *history.Event) { e.Key, e.Session, e.Granted = "k", "s-1", 42 })},
		{"DELETE", "/v1/locks/k", `{"sessionId":"s-1"}`, 204, "",
			with(contract.OpRelease, func(e *history.Event) { e.Key, e.Session, e.Status = "k", "s-1", 204 })},
		{"POST", claimPath, claimBody, 200, `{"accountId":"a-1"}`,
			with(contract.OpClaim, func(e *history.Event) { e.Payout, e.Account = "p-1", "a-1" })},
		{"POST", claimPath, claimBody, 409, `{"code":"FENCED_OUT","details":{"highestToken":9007199254740993,"resourceType":"account"}}`,
			with(contract.OpClaim, func(e *history.Event) {
				e.Payout, e.Status, e.Code, e.Type, e.Highest = "p-1", 409, contract.FencedOut, contract.Fail, 1<<53+1
			})},
		{"POST", "http://h:1/v1/payouts/p-1/outcome?x=1", `{"outcome":"TIMEOUT"}`, 503, `{"code":"STORE_UNAVAILABLE"}`,
			with(contract.OpOutcome, func(e *history.Event) {
				e.Payout, e.Status, e.Code, e.Type, e.Outcome = "p-1", 503, contract.StoreUnavailable, contract.Info, contract.OutcomeTimeout
			})},
		{"POST", "/v1/rail/submissions", `{"payoutId":"p-1","accountId":"a-1","amountMinor":5}`, 409, `{"code":"FENCED_OUT","details":{"highestToken":43}}`,
			with(contract.OpSubmit, func(e *history.Event) {
				e.Payout, e.Account, e.Status, e.Code, e.Outcome, e.Highest = "p-1", "a-1", 409, contract.FencedOut, contract.OutcomeFenced, 43
			})},
		{"POST", "/submit", `{"clientRef":"p-1"}`, 402, `{"code":"DECLINED"}`,
			with(contract.OpTransfer, func(e *history.Event) { e.Payout, e.Status, e.Code, e.Type = "p-1", 402, "DECLINED", contract.Fail })},
		{"GET", "/transfers?clientRef=p-1", "", 200, `{"transfers":[]}`,
			with(contract.OpLookup, func(e *history.Event) { e.Payout = "p-1" })},
		{"GET", "/v1/payouts?accountId=a%2D1&state=A,B", "", 200, `{"items":[]}`,
			with(contract.OpListPayouts, func(e *history.Event) { e.Account = "a-1" })},
		{"GET", "/v1/accounts/a-1", "", 200, `{}`, with(contract.OpGetAccount, func(e *history.Event) { e.Account = "a-1" })},
		{"POST", "/v1/rail/submissions", `{"payoutId":17,"accountId":{"a":1},`, 500, `<html>`,
			with(contract.OpSubmit, func(e *history.Event) {
				e.Payout, e.Status, e.Type, e.Outcome = "17", 500, contract.Info, contract.OutcomeUnknown
			})},
		{"POST", "/v1/locks/k/acquire", `"text"`, 200, `[1]`, with(contract.OpAcquire, func(e *history.Event) { e.Key = "k" })},
		{"PATCH", "/v1/nothing", "\x00\xff", 200, "\xff", with(contract.OpUnknown, func(*history.Event) {})},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			relay, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain; charset=latin-1") // nobody may rely on it
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			})
			client := dialTo(t, relay.Addr())
			send(t, client, strings.Replace(post(c.target, c.body, headers...), "POST", c.method, 1))
			readResponse(t, bufio.NewReader(client), c.method)
			got := b.stage(t, history.Delivered)
			c.want.Stage, c.want.I, c.want.Call = history.Delivered, 4, got.Call
			c.want.Owner, c.want.Token = "executor-2", 1<<63-1
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("delivered\n got %+v\nwant %+v", got, c.want)
			}
			es := b.all()
			answered, res := es[2], c.answer
			if c.want.Op == contract.OpListPayouts || c.want.Op == contract.OpLookup {
				res = ""
			}
			if es[0].Req != c.body || answered.Res != res {
				t.Errorf("bodies: %q and %q", es[0].Req, answered.Res)
			}
			answered.Stage, answered.I, answered.Res = history.Delivered, 4, ""
			if !reflect.DeepEqual(answered, got) {
				t.Errorf("answered and delivered differ:\n%+v\n%+v", answered, got)
			}
			for _, e := range es[:2] {
				if e.Type != contract.Invoke || e.Key != got.Key || e.Payout != got.Payout || e.Token != got.Token || e.Call != got.Call || e.Status != 0 {
					t.Errorf("%s: %+v", e.Stage, e)
				}
			}
		})
	}
}

func TestAHeaderThatIsNoTokenIsNone(t *testing.T) {
	for _, text := range []string{"", "0", "-1", "+41", "041", "4 1", "1e3", "0x29", "9223372036854775808", "4_1"} {
		relay, b, _ := rig(t, func(http.ResponseWriter, *http.Request) {})
		client := dialTo(t, relay.Addr())
		send(t, client, post(claimPath, claimBody, "X-Fencing-Token: "+text))
		readResponse(t, bufio.NewReader(client), "POST")
		if e := b.stage(t, history.Received); e.Token != 0 {
			t.Errorf("%q was taken for %d", text, e.Token)
		}
	}
}

func TestLongBodiesAreCutBetweenCharacters(t *testing.T) {
	for n := range 4 {
		text := strings.Repeat("x", history.BodyLimit-n) + "😀😀"
		got := clip([]byte(text))
		want := text[:history.BodyLimit-n] // the character does not fit, or would be cut
		if got != want && got != want+"😀" {
			t.Errorf("%d bytes are kept, want %d", len(got), len(want))
		}
	}
	if got := clip([]byte(strings.Repeat("\xff", history.BodyLimit+9))); len(got) < history.BodyLimit-4 {
		t.Errorf("of bytes that are no characters %d are kept", len(got))
	}
}

func TestWhatTheRelayCannotPassOnItAnswersItself(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		op      contract.Op
	}{
		"no HTTP":                   {"hello\r\n\r\n", contract.OpUnknown},
		"a later HTTP":              {"PRI * HTTP/2.0\r\n\r\n", contract.OpUnknown},
		"CONNECT":                   {"CONNECT h:1 HTTP/1.1\r\n\r\n", contract.OpUnknown},
		"blank lines only":          {strings.Repeat("\r\n", 20), contract.OpUnknown},
		"two lengths":               {"POST " + claimPath + " HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", contract.OpClaim},
		"a length that is none":     {"POST " + claimPath + " HTTP/1.1\r\nContent-Length: +1\r\n\r\na", contract.OpClaim},
		"length and chunks":         {"POST " + claimPath + " HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", contract.OpClaim},
		"an unknown coding":         {"POST " + claimPath + " HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", contract.OpClaim},
		"a space before the colon":  {"POST " + claimPath + " HTTP/1.1\r\nContent-Length : 1\r\n\r\na", contract.OpClaim},
		"a chunk that is too long":  {"POST " + claimPath + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", contract.OpClaim},
		"a body beyond the limit":   {fmt.Sprintf("POST %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n", claimPath, MaxBody+1), contract.OpClaim},
		"chunks beyond the limit":   {fmt.Sprintf("POST %s HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", claimPath, MaxBody+1), contract.OpClaim},
		"header fields beyond it":   {"POST " + claimPath + " HTTP/1.1\r\nX: " + strings.Repeat("y", MaxHead), contract.OpClaim},
		"100-continue too long too": {fmt.Sprintf("POST %s HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", claimPath, MaxBody+1), contract.OpClaim},
	} {
		t.Run(name, func(t *testing.T) {
			relay, b, _ := rig(t, func(http.ResponseWriter, *http.Request) { t.Error("the server got it") })
			client := dialTo(t, relay.Addr())
			send(t, client, c.request)
			in := bufio.NewReader(client)
			res, body := readResponse(t, in, "POST")
			if res.StatusCode != 400 || !strings.Contains(body, `"INVALID_REQUEST"`) || !res.Close {
				t.Errorf("status %d, close %v, body %s", res.StatusCode, res.Close, body)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("the connection goes on: %v", err)
			}
			e := b.stage(t, history.Delivered)
			if e.Status != 400 || e.Code != contract.InvalidRequest || e.Op != c.op {
				t.Errorf("recorded: %+v", e)
			}
			if s := stages(b.all()); s != "received/invoke answered/fail delivered/fail" {
				t.Errorf("the story is %s", s)
			}
		})
	}
}
