package reports

import (
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// wording is one row change in words, and how it is to be read.
type wording struct {
	text  string
	token string // the token under which it was written, where the row says
	tone  tone
	rail  bool // a row of the rail proxy's own
}

// describe puts the row changes of one paydb or lockdb commit into words. Rows that only serve the services' own
// book-keeping (stored replies) are left out.
func describe(changes []history.Change) []wording {
	var out []wording
	for i := range changes {
		if l, ok := describeRow(&changes[i]); ok {
			out = append(out, l)
		}
	}
	return out
}

func describeRow(c *history.Change) (wording, bool) {
	now, old := c.New, c.Old
	switch c.Table {
	case "payout":
		return describePayout(now, old)
	case "account":
		return describeAccount(now, old)
	case "ledger_entry":
		if now == nil {
			return wording{text: "ledger row deleted", tone: toneBad}, true
		}
		return wording{text: now["direction"] + " " + minor(now["amount_minor"], ""), token: now["fence"]}, true
	case "rail_high_water":
		if now == nil {
			return wording{text: "mark deleted", tone: toneBad, rail: true}, true
		}
		return wording{text: "mark " + arrow(firstOf(old["highest_token"], "none"), now["highest_token"]), token: now["highest_token"], tone: toneRaise, rail: true}, true
	case "rail_submission":
		return describeSubmission(now, old)
	case "payout_resolution":
		return wording{text: "evidence " + now["outcome"], token: now["token"]}, true
	case "lock_entry":
		return describeLock(now, old)
	case "lock_session":
		switch c.Kind {
		case history.Insert:
			return wording{text: "session of " + clip(now["owner_id"], 40) + " opened"}, true
		case history.Delete:
			return wording{text: "session of " + clip(old["owner_id"], 40) + " ended"}, true
		}
	case "lock_revocation":
		return wording{text: "revoked by " + clip(now["operator"], 40), token: now["prev_token"], tone: toneFault}, true
	}
	return wording{}, false
}

func describePayout(now, old map[string]string) (wording, bool) {
	l := wording{token: now["claim_token"]}
	switch {
	case now == nil:
		return wording{text: "payout deleted", tone: toneBad}, true
	case old == nil:
		l.text = "payout inserted " + now["state"]
	case old["state"] != now["state"]:
		l.text = arrow(old["state"], now["state"])
		if contract.State(old["state"]).Terminal() {
			l.tone = toneBad
		}
	case old["claim_token"] != now["claim_token"]:
		l.text = "taken over in " + now["state"] + ", claim " + arrow(firstOf(old["claim_token"], "none"), now["claim_token"])
	default:
		return wording{}, false
	}
	return l, true
}

func describeAccount(now, old map[string]string) (wording, bool) {
	if now == nil || old == nil {
		return wording{}, false
	}
	var parts []string
	l := wording{}
	if old["fence"] != now["fence"] {
		parts, l.tone = append(parts, "fence "+arrow(old["fence"], now["fence"])), toneRaise
	}
	if old["balance_minor"] != now["balance_minor"] {
		parts = append(parts, "balance "+arrow(minor(old["balance_minor"], ""), minor(now["balance_minor"], now["currency"])))
	}
	l.text = strings.Join(parts, ", ")
	return l, l.text != ""
}

func describeSubmission(now, old map[string]string) (wording, bool) {
	if now == nil {
		return wording{text: "attempt deleted", tone: toneBad, rail: true}, true
	}
	l := wording{token: now["presented_token"], rail: true}
	outcome := contract.Outcome(now["outcome"])
	switch {
	case outcome == contract.OutcomeFenced && old == nil:
		l.text, l.tone = "refusal recorded", toneRefused
	case old == nil && outcome == "":
		l.text = "attempt recorded"
	case old["outcome"] != now["outcome"] || old == nil:
		l.text = "outcome " + string(outcome)
		if outcome == contract.OutcomeTimeout {
			l.tone = toneUnknown
		}
	default:
		return wording{}, false
	}
	return l, true
}

func describeLock(now, old map[string]string) (wording, bool) {
	switch {
	case old == nil:
		return wording{text: "granted to " + clip(now["owner_id"], 40), token: now["fencing_token"]}, true
	case now == nil:
		return wording{text: "grant of " + clip(old["owner_id"], 40) + " deleted", token: old["fencing_token"]}, true
	case old["fencing_token"] != now["fencing_token"]:
		return wording{text: "granted to " + clip(now["owner_id"], 40) + ", token " + arrow(old["fencing_token"], now["fencing_token"]), token: now["fencing_token"]}, true
	}
	return wording{text: "renewed by " + clip(now["owner_id"], 40), token: now["fencing_token"]}, true
}

// arrow writes a change of a value. Values of the evidence are clipped: they are shown, whatever they are.
func arrow(from, to string) string { return clip(from, 40) + " → " + clip(to, 40) }
