package payment_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func (b *bench) ids(a answer) []string {
	b.Helper()
	b.want(a, 200, "")
	out := []string{}
	for _, item := range a.body["items"].([]any) {
		out = append(out, item.(map[string]any)["payoutId"].(string))
	}
	return out
}

func TestTheListIsInOrderOfCreationAndItsPagesMissNothing(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 0)
	var all []string
	for i := range 25 {
		p := b.payout(acct, 10, allStates[i%len(allStates)], int64(i%len(allStates)))
		b.exec(`UPDATE payout SET created_at = '2026-01-31 12:00:00.123456+00'::timestamptz + make_interval(secs => $2) WHERE payout_id = $1`, p, i/5)
		all = append(all, p)
	}
	for i := 0; i < len(all); i += 5 { // five at a time are of the same moment, and then in order of their ids
		slices.Sort(all[i : i+5])
	}
	for _, limit := range []string{"1", "7", "25", "1000"} {
		var got []string
		cursor := ""
		for range 30 {
			a := b.get("/v1/payouts?accountId=" + acct + "&limit=" + limit + "&state=&cursor=" + cursor)
			got = append(got, b.ids(a)...)
			if cursor = a.at("nextCursor"); cursor == "" {
				break
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("pages of %s gave %d payouts, want %d in order", limit, len(got), len(all))
		}
	}
}

func TestTheListHoldsTheStatesThatWereAskedFor(t *testing.T) {
	b := newBench(t)
	acct := b.account(1000, 0)
	byState := map[string]string{}
	for i, s := range allStates {
		byState[s] = b.payout(acct, 10, s, int64(i))
	}
	for _, asked := range []string{"PENDING", "CLAIMED,RAIL_SUBMITTED,RAIL_ACKED,PENDING", "POSTED", "RAIL_AMBIGUOUS,FAILED", "ABANDONED,POSTED,FAILED"} {
		var want []string
		for s := range strings.SplitSeq(asked, ",") {
			want = append(want, byState[s])
		}
		got := b.ids(b.get("/v1/payouts?state=" + asked + "&accountId=" + acct))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("state=%s gave %v, want %v", asked, got, want)
		}
	}
	none := b.get("/v1/payouts?accountId=" + b.account(1, 0))
	if got := b.ids(none); len(got) != 0 || !strings.Contains(none.raw, `"items":[]`) {
		t.Errorf("an account without payouts lists %s", none.raw)
	}
}

func TestAPayoutIsShownWithItsSubmissionsAndItsResolution(t *testing.T) {
	b := newBench(t)
	p := b.payout(b.account(1000, 0), 250, "RAIL_AMBIGUOUS", 40)
	if a := b.get("/v1/payouts/" + p); !strings.Contains(a.raw, `"submissions":[]`) || strings.Contains(a.raw, "resolution") {
		t.Errorf("a payout without submissions answers %s", a.raw)
	}
	b.exec(`INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, submitted_at, resolved_at)
		VALUES (gen_random_uuid(), $1, 'k', 9223372036854775806, 'FENCED', '2026-01-31 12:00:00+00', '2026-01-31 12:00:01+00'),
		       (gen_random_uuid(), $1, 'k', 40, NULL, '2026-01-31 12:00:02.5+00', NULL)`, p)
	b.want(b.send(request{payout: p, verb: "resolve", token: 50, body: `{"resolution":"ABSENT","lookedUpAt":"2026-01-31T12:05:00Z"}`}), 200, "")
	a := b.want(b.get("/v1/payouts/"+p), 200, "")
	for _, want := range []string{
		`"presentedToken":9223372036854775806,"outcome":"FENCED","submittedAt":"2026-01-31T12:00:00Z","resolvedAt":"2026-01-31T12:00:01Z"}`,
		`"presentedToken":40,"submittedAt":"2026-01-31T12:00:02.5Z"}`,
		`"resolution":{"outcome":"ABSENT","evidence":"the rail's look-up of 2026-01-31T12:05:00Z shows no transfer after the settlement window","token":50,"createdAt":"`,
		`"state":"FAILED","claimedBy":"executor-1","claimToken":50,`,
	} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("the payout answers %s\nand should hold %s", a.raw, want)
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, a.at("createdAt")); err != nil || at.Location() != time.UTC {
		t.Errorf("createdAt is %s", a.at("createdAt"))
	}
}
