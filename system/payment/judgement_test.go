package payment_test

import (
	"fmt"
	"strings"
	"testing"
)

// fence is the fence of the accounts in this table.
const fence = 100

// verbs are all that can be asked of a payout, each with a well-formed body.
var verbs = []struct{ verb, body string }{
	{"claim", `{"expectedState":"PENDING"}`}, {"claim", `{"expectedState":"CLAIMED"}`}, {"claim", `{"expectedState":"RAIL_SUBMITTED"}`},
	{"claim", `{"expectedState":"RAIL_ACKED"}`}, {"claim", `{"expectedState":"POSTED"}`},
	{"submitted", `{}`},
	{"outcome", acked}, {"outcome", `{"outcome":"REJECTED"}`}, {"outcome", timeout},
	{"post", postBody},
	{"resolve", `{"resolution":"ACKED","railReference":"rail-1"}`},
	{"resolve", `{"resolution":"ABSENT","lookedUpAt":"2026-01-31T12:00:00Z"}`},
	{"resolve", `{"resolution":"ABANDONED","operator":"ops","reason":"given up after a call"}`},
}

// allowed is the contract's table of transitions for a token that fits everything: verb and body, then from and to.
var allowed = map[string]map[string]string{
	`claim {"expectedState":"PENDING"}`:                                   {"PENDING": "CLAIMED"},
	`claim {"expectedState":"CLAIMED"}`:                                   {"CLAIMED": "CLAIMED"},
	`claim {"expectedState":"RAIL_SUBMITTED"}`:                            {"RAIL_SUBMITTED": "RAIL_SUBMITTED"},
	`claim {"expectedState":"RAIL_ACKED"}`:                                {"RAIL_ACKED": "RAIL_ACKED"},
	`submitted {}`:                                                        {"CLAIMED": "RAIL_SUBMITTED"},
	`outcome ` + acked:                                                    {"RAIL_SUBMITTED": "RAIL_ACKED"},
	`outcome {"outcome":"REJECTED"}`:                                      {"RAIL_SUBMITTED": "FAILED"},
	`outcome ` + timeout:                                                  {"RAIL_SUBMITTED": "RAIL_AMBIGUOUS"},
	`post ` + postBody:                                                    {"RAIL_ACKED": "POSTED"},
	`resolve {"resolution":"ACKED","railReference":"rail-1"}`:             {"RAIL_AMBIGUOUS": "RAIL_ACKED"},
	`resolve {"resolution":"ABSENT","lookedUpAt":"2026-01-31T12:00:00Z"}`: {"RAIL_AMBIGUOUS": "FAILED"},
	`resolve {"resolution":"ABANDONED","operator":"ops","reason":"given up after a call"}`: {"RAIL_AMBIGUOUS": "ABANDONED", "PENDING": "ABANDONED"},
}

// claimFits is the contract's rule for the claim token of each verb.
func claimFits(verb string, held, token int64) bool {
	switch verb {
	case "claim":
		return held < token
	case "submitted", "outcome":
		return held == token
	case "post":
		return held <= token
	}
	return true
}

// claimTokens are the claims that a payout in this state may carry: below, at and above the token presented.
func claimTokens(state string, token int64) []int64 {
	if state == "PENDING" {
		return []int64{0}
	}
	return []int64{token - 20, token, token + 20}
}

var allStates = []string{"PENDING", "CLAIMED", "RAIL_SUBMITTED", "RAIL_ACKED", "RAIL_AMBIGUOUS", "POSTED", "FAILED", "ABANDONED"}

func TestEveryRequestInEveryStateIsJudgedByItsTokenFirst(t *testing.T) {
	b := newBench(t)
	for _, state := range allStates {
		for _, token := range []int64{fence - 1, fence, fence + 1} {
			for _, held := range claimTokens(state, token) {
				for _, v := range verbs {
					t.Run(fmt.Sprintf("%s %s in %s claimed by %d under %d", v.verb, v.body, state, held, token), func(t *testing.T) {
						judgeOne(b.in(t), state, held, request{verb: v.verb, body: v.body, token: token})
					})
				}
			}
		}
	}
}

// judgeOne sends r to a payout in this state and compares answer and books with the contract.
func judgeOne(b *bench, state string, held int64, r request) {
	acct := b.account(1000, fence)
	r.payout = b.payout(acct, 250, state, held)
	if state == "POSTED" {
		b.legs(acct, r.payout, 250, held)
	}
	before := b.books(r.payout)
	a := b.send(r)
	to := allowed[r.verb+" "+r.body][state]
	switch {
	case r.token <= fence:
		b.want(a, 409, "FENCED_OUT")
		details := fmt.Sprintf(`"details":{"presentedToken":%d,"highestToken":%d,"resourceType":"account","resourceId":%q,"ownerId":"executor-1"}`, r.token, fence, acct)
		if !strings.Contains(a.raw, details) {
			b.Errorf("answered %s, want %s", a.raw, details)
		}
		if n := len(b.log.events("fenced_out", r.payout)); n != 1 {
			b.Errorf("fenced_out logged %d times", n)
		}
	case r.verb == "post" && state == "POSTED":
		b.want(a, 200, "")
		if len(a.body["entries"].([]any)) != 2 || a.at("balanceMinor") != "1000" {
			b.Errorf("answered %s", a.raw)
		}
	case to != "" && claimFits(r.verb, held, r.token):
		b.want(a, 200, "")
		if got := b.row(`SELECT state FROM payout WHERE payout_id = $1`, r.payout); got != to || a.at("state") != to {
			b.Errorf("answered %s and stored %s, want %s", a.at("state"), got, to)
		}
		b.checkFence(acct, r)
		return
	default:
		b.want(a, 409, "PAYOUT_NOT_CLAIMABLE")
		if n := len(b.log.events("transition_refused", r.payout)); n != 1 || a.at("details", "state") != state {
			b.Errorf("transition_refused logged %d times, details %s", n, a.raw)
		}
	}
	if after := b.books(r.payout); after != before {
		b.Errorf("a request without effect changed\n%s to\n%s", before, after)
	}
}

// checkFence says where each verb leaves the fence.
func (b *bench) checkFence(acct string, r request) {
	b.Helper()
	want := map[string]int64{"claim": r.token - 1, "resolve": r.token - 1, "post": r.token, "submitted": fence, "outcome": fence}[r.verb]
	if got := b.row(`SELECT fence::text FROM account WHERE account_id = $1`, acct); got != fmt.Sprint(want) {
		b.Errorf("%s under %d leaves the fence at %s, want %d", r.verb, r.token, got, want)
	}
}

func TestTheClaimAndTheResolutionStampTheirToken(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 0)
	p := b.payout(acct, 250, "PENDING", 0)
	b.want(b.send(claim(p, 41, "PENDING")), 200, "")
	r := claim(p, 43, "CLAIMED")
	r.owner = "executor-2"
	if a := b.want(b.send(r), 200, ""); a.at("attemptCount") != "2" || a.at("accountFence") != "42" {
		t.Errorf("the take-over answered %s", a.raw)
	}
	if got := b.row(`SELECT concat_ws(' ', claimed_by, claim_token, attempt_count) FROM payout WHERE payout_id = $1`, p); got != "executor-2 43 2" {
		t.Errorf("the take-over stored %s", got)
	}
	q := b.payout(acct, 250, "RAIL_AMBIGUOUS", 40)
	b.want(b.send(request{payout: q, verb: "resolve", token: 50, owner: "reconciler", body: `{"resolution":"ACKED","railReference":"rail-7"}`}), 200, "")
	got := b.row(`SELECT concat_ws(' ', claimed_by, claim_token, attempt_count, outcome, rail_reference, token)
		FROM payout JOIN payout_resolution USING (payout_id) WHERE payout_id = $1`, q)
	if got != "reconciler 50 0 ACKED rail-7 50" {
		t.Errorf("the resolution stored %s", got)
	}
}
