package payment_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func goodHeaders(payoutID string, token string) http.Header {
	return http.Header{"X-Owner-Id": {"executor-1"}, "X-Fencing-Token": {token}, "X-Idempotency-Key": {"payout-" + payoutID}}
}

// writes are the five commands with a body that each of them takes.
var writes = map[string]string{
	"claim": claimPending, "submitted": `{}`, "outcome": acked, "post": postBody,
	"resolve": `{"resolution":"ABANDONED","operator":"ops","reason":"given up after a call"}`,
}

func TestABadRequestIsAnsweredWithTheFieldNamedAndWritesNothing(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 0)
	p := b.payout(acct, 250, "PENDING", 0)
	before := b.books(p)
	path := func(verb string) string { return "/v1/payouts/" + p + "/" + verb }
	refuse := func(name, method, path string, h http.Header, body string, status int, code, mention string) {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			a := b.want(b.raw(method, path, h, body), status, code)
			if a.at("traceId") == "" || a.at("retrySafe") != "false" || !strings.Contains(a.at("message"), mention) {
				t.Errorf("the envelope is %s and should mention %q", a.raw, mention)
			}
			if after := b.books(p); after != before {
				t.Errorf("it changed\n%s to\n%s", before, after)
			}
		})
	}
	for verb, body := range writes {
		for _, name := range []string{"X-Owner-Id", "X-Fencing-Token", "X-Idempotency-Key"} {
			missing, twice := goodHeaders(p, "41"), goodHeaders(p, "41")
			missing.Del(name)
			twice.Add(name, twice.Get(name))
			code := "INVALID_REQUEST"
			if name == "X-Fencing-Token" {
				code = "INVALID_TOKEN"
			}
			refuse(verb+" without "+name, "POST", path(verb), missing, body, 400, code, name)
			refuse(verb+" with two "+name, "POST", path(verb), twice, body, 400, code, name)
		}
		for _, token := range badTokens {
			refuse(verb+" under token "+token, "POST", path(verb), goodHeaders(p, token), body, 400, "INVALID_TOKEN", "X-Fencing-Token")
		}
		h := goodHeaders(p, "41")
		refuse(verb+" with an unknown field", "POST", path(verb), h, `{"surprise":1}`, 400, "INVALID_REQUEST", "surprise")
		refuse(verb+" with no JSON", "POST", path(verb), h, `{"a":`, 400, "INVALID_REQUEST", "JSON")
		refuse(verb+" without a body", "POST", path(verb), h, ``, 400, "INVALID_REQUEST", "JSON")
		refuse(verb+" with a list", "POST", path(verb), h, `[]`, 400, "INVALID_REQUEST", "JSON")
		refuse(verb+" with null", "POST", path(verb), h, `null`, 400, "INVALID_REQUEST", "JSON")
		refuse(verb+" with two objects", "POST", path(verb), h, body+body, 400, "INVALID_REQUEST", "JSON")
		refuse(verb+" with a huge body", "POST", path(verb), h, `{"reason":"`+strings.Repeat("x", 1<<20)+`"}`, 400, "INVALID_REQUEST", "1048576")
		refuse(verb+" by another method", "PUT", path(verb), h, body, 405, "METHOD_NOT_ALLOWED", "PUT")
		refuse(verb+" by GET", "GET", path(verb), h, ``, 405, "METHOD_NOT_ALLOWED", "GET")
		refuse(verb+" of no UUID", "POST", "/v1/payouts/7/"+verb, h, body, 400, "INVALID_REQUEST", "UUID")
		refuse(verb+" of an upper-case UUID", "POST", "/v1/payouts/"+strings.ToUpper(p)+"/"+verb, h, body, 400, "INVALID_REQUEST", "UUID")
		other := uuid.NewString()
		refuse(verb+" of an unknown payout", "POST", "/v1/payouts/"+other+"/"+verb, goodHeaders(other, "41"), body, 404, "NOT_FOUND", "payout")
		refuse(verb+" with another payout's key", "POST", path(verb), goodHeaders(other, "41"), body, 400, "INVALID_REQUEST", "X-Idempotency-Key")
		long := goodHeaders(p, "41")
		long.Set("X-Owner-Id", strings.Repeat("o", 65))
		refuse(verb+" by a long owner", "POST", path(verb), long, body, 400, "INVALID_REQUEST", "X-Owner-Id")
		odd := goodHeaders(p, "41")
		odd.Set("X-Owner-Id", "\xff")
		refuse(verb+" by an owner that is no text", "POST", path(verb), odd, body, 400, "INVALID_REQUEST", "X-Owner-Id")
	}
	for _, tc := range badBodies {
		refuse(tc.verb+" "+tc.body, "POST", path(tc.verb), goodHeaders(p, "41"), tc.body, 400, "INVALID_REQUEST", tc.mention)
	}
	refuse("an endpoint that is not there", "POST", path("cancel"), goodHeaders(p, "41"), `{}`, 404, "NOT_FOUND", "cancel")
	for _, q := range badQueries {
		refuse("list "+q.query, "GET", "/v1/payouts?"+q.query, nil, "", 400, "INVALID_REQUEST", q.mention)
	}
	for _, path := range []string{"/v1/payouts", "/v1/payouts/" + p, "/v1/accounts/" + acct} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			refuse(method+" of "+path, method, path, goodHeaders(p, "41"), `{}`, 405, "METHOD_NOT_ALLOWED", method)
		}
	}
	refuse("a payout that is no UUID", "GET", "/v1/payouts/7", nil, "", 400, "INVALID_REQUEST", "UUID")
	refuse("an account that is no UUID", "GET", "/v1/accounts/7", nil, "", 400, "INVALID_REQUEST", "UUID")
	refuse("an unknown account", "GET", "/v1/accounts/"+uuid.NewString(), nil, "", 404, "NOT_FOUND", "account")
	refuse("an unknown payout", "GET", "/v1/payouts/"+uuid.NewString(), nil, "", 404, "NOT_FOUND", "payout")
}

var badTokens = []string{"0", "-1", "9223372036854775808", "+41", "041", "4 1", "1e3", "0x29", "41.0", "٤١", "99999999999999999999", "41,42"}

var badBodies = []struct{ verb, body, mention string }{
	{"claim", `{}`, "expectedState"},
	{"claim", `{"expectedState":null}`, "expectedState"},
	{"claim", `{"expectedState":"pending"}`, "expectedState"},
	{"claim", `{"expectedState":7}`, "expectedState"},
	{"claim", `{"ExpectedState":"PENDING"}`, "ExpectedState"},
	{"submitted", `{"state":"CLAIMED"}`, "state"},
	{"outcome", `{}`, "outcome"},
	{"outcome", `{"outcome":"FENCED"}`, "outcome"},
	{"outcome", `{"outcome":"ACKED","submissionId":"7"}`, "submissionId"},
	{"outcome", `{"outcome":"ACKED","railReference":"a\u0000b"}`, "railReference"},
	{"outcome", `{"outcome":"ACKED","railReference":7}`, "railReference"},
	{"outcome", `{"outcome":"REJECTED","reason":"` + strings.Repeat("x", 2001) + `"}`, "reason"},
	{"post", `{"railReference":"r","railOutcome":"ACKED"}`, "submissionId"},
	{"post", `{"submissionId":"0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11","railOutcome":"ACKED"}`, "railReference"},
	{"post", `{"railReference":"r","submissionId":"0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11"}`, "railOutcome"},
	{"post", `{"railReference":"r","submissionId":"0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11","railOutcome":"TIMEOUT"}`, "railOutcome"},
	{"resolve", `{"resolution":"POSTED"}`, "resolution"},
	{"resolve", `{"resolution":"ACKED"}`, "railReference"},
	{"resolve", `{"resolution":"ACKED","railReference":"r","operator":"ops"}`, "operator"},
	{"resolve", `{"resolution":"ABSENT"}`, "lookedUpAt"},
	{"resolve", `{"resolution":"ABSENT","lookedUpAt":"yesterday"}`, "lookedUpAt"},
	{"resolve", `{"resolution":"ABSENT","lookedUpAt":"2026-01-31T12:00:00Z","railReference":"r"}`, "railReference"},
	{"resolve", `{"resolution":"ABANDONED","reason":"long enough"}`, "operator"},
	{"resolve", `{"resolution":"ABANDONED","operator":"ops","reason":"short"}`, "reason"},
	{"resolve", `{"resolution":"ABANDONED","operator":"ops","reason":"        "}`, "reason"},
	{"resolve", `{"resolution":"ABANDONED","operator":"ops","reason":"` + strings.Repeat("x", 1001) + `"}`, "reason"},
}

var badQueries = []struct{ query, mention string }{
	{"state=OPEN", "state"}, {"state=PENDING,", "state"}, {"state=PENDING&state=POSTED", "state"}, {"limit=0", "limit"}, {"limit=1001", "limit"},
	{"limit=ten", "limit"}, {"limit=010", "limit"}, {"limit=-1", "limit"}, {"accountId=7", "accountId"}, {"cursor=abc", "cursor"},
	{"cursor=OTk5OTk5OTk5OTk5OTk5OTk5OSA3", "cursor"}, {"colour=red", "colour"}, {"state=%zz", "query"},
}

func TestTokensPassThroughBitForBit(t *testing.T) {
	b := newBench(t)
	for _, token := range []int64{1, 1<<31 - 1, 1 << 31, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<63 - 2, 1<<63 - 1} {
		t.Run(fmt.Sprint(token), func(t *testing.T) {
			b := b.in(t)
			acct := b.account(1000, 0)
			p := b.payout(acct, 250, "PENDING", 0)
			want := func(got, what string, n int64) {
				t.Helper()
				if got != fmt.Sprint(n) {
					t.Errorf("%s is %s, want %d", what, got, n)
				}
			}
			a := b.want(b.send(claim(p, token, "PENDING")), 200, "")
			want(a.at("claimToken"), "the claim's token", token)
			want(a.at("accountFence"), "the claim's fence", token-1)
			want(b.get("/v1/payouts/"+p).at("claimToken"), "the payout's claim token", token)
			b.want(b.send(submitted(p, token)), 200, "")
			b.want(b.send(outcome(p, token, acked)), 200, "")
			b.want(b.send(post(p, token)), 200, "")
			want(b.get("/v1/accounts/"+acct).at("fence"), "the account's fence", token)
			want(b.row(`SELECT min(fence)::text FROM ledger_entry WHERE payout_id = $1`, p), "the legs' fence", token)
			want(b.row(`SELECT claim_token::text FROM payout WHERE payout_id = $1`, p), "the stored claim token", token)
			q := b.payout(acct, 250, "PENDING", 0)
			a = b.want(b.send(claim(q, token, "PENDING")), 409, "FENCED_OUT")
			want(a.at("details", "presentedToken"), "the token presented", token)
			want(a.at("details", "highestToken"), "the highest token", token)
			logged := b.log.events("fenced_out", q)
			if len(logged) != 1 {
				t.Fatalf("fenced_out logged %d times", len(logged))
			}
			want(fmt.Sprint(logged[0]["presentedToken"]), "the logged token", token)
			want(fmt.Sprint(logged[0]["highestToken"]), "the logged fence", token)
			if logged[0]["resource"] != "account" || logged[0]["resourceId"] != acct || logged[0]["ownerId"] != "executor-1" || logged[0]["level"] != "ERROR" {
				t.Errorf("logged %v", logged[0])
			}
		})
	}
}
