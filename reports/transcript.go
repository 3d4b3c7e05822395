package reports

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// Transcript writes what happened to payouts as plain text, one line per answer, row change and stop, in the order in
// which the witnesses recorded them. Without payouts it tells of those whose holder a nemesis hit.
func Transcript(w io.Writer, historyDir string, payouts ...string) error {
	if len(payouts) == 0 {
		var err error
		if payouts, err = hit(historyDir); err != nil {
			return err
		}
	}
	if len(payouts) == 0 {
		return errors.New("no holder was hit in this run; name a payout")
	}
	for i, p := range payouts {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return fmt.Errorf("write the transcript: %w", err)
			}
		}
		t := transcript{payout: p}
		if err := each(historyDir, t.observe); err != nil {
			return err
		}
		if t.account == "" {
			return fmt.Errorf("there is no payout %s in this run", p)
		}
		if _, err := io.WriteString(w, t.text()); err != nil {
			return fmt.Errorf("write the transcript: %w", err)
		}
	}
	return nil
}

// hit lists the payouts that fault windows were aimed at, each once, in order.
func hit(historyDir string) ([]string, error) {
	var payouts []string
	seen := map[string]bool{}
	err := each(historyDir, func(e *history.Event) {
		if e.W == history.Nemesis && e.Payout != "" && !seen[e.Payout] {
			seen[e.Payout] = true
			payouts = append(payouts, e.Payout)
		}
	})
	return payouts, err
}

func each(historyDir string, observe func(*history.Event)) error {
	r, err := history.Open(historyDir)
	if err != nil {
		return fmt.Errorf("open the history: %w", err)
	}
	defer r.Close()
	for {
		var e history.Event
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the history: %w", err)
		}
		observe(&e)
	}
}

// utterance is one line of a transcript with its place in time, in ns.
type utterance struct {
	at   int64
	text string
}

// Witnesses that look at files and logs record what happened a moment after it did, the wiretap at once. So that an
// effect stands before the answer that reports it, theirs is placed this much earlier (ns).
const behind = int64(10 * time.Millisecond)

// transcript collects the lines about one payout and its account.
type transcript struct {
	payout, account, currency string
	lines                     []utterance
	grants                    []utterance // acquires of the account that the payout may turn out to belong to
	now                       int64       // when the event at hand happened, as well as that is known
	over                      bool        // the payout has ended: later grants of the account are for others
}

func (t *transcript) say(who, format string, args ...any) {
	if who != "" {
		who = "[" + who + "]"
	}
	t.lines = append(t.lines, utterance{t.now, fmt.Sprintf("%-18s %s", who, fmt.Sprintf(format, args...))})
}

func (t *transcript) text() string {
	slices.SortStableFunc(t.lines, func(a, b utterance) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	fmt.Fprintf(&b, "payout %s\n", t.payout)
	for _, l := range t.lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

func (t *transcript) observe(e *history.Event) {
	t.now = e.T
	if e.W == history.PayDB || e.W == history.Journal {
		t.now -= behind
	}
	switch e.W {
	case history.Wiretap:
		t.call(e)
	case history.PayDB:
		t.commit(e.Changes)
	case history.Journal:
		if e.Op == history.OpMoney && e.Payout == t.payout {
			t.say("rail", "MONEY MOVED: %s, %s", money(e.Amount, e.Currency), e.RailRef)
		}
	case history.Nemesis:
		t.stall(e)
	}
}

// stall tells of the stops that were aimed at the payout's holder.
func (t *transcript) stall(e *history.Event) {
	if e.Payout != t.payout {
		return
	}
	switch e.Phase {
	case "seen":
		t.say(e.Target, "STOPPED: it holds token %d, has checked its lease and not yet written", e.Token)
	case "healed":
		t.say(e.Target, "GOES ON: it still believes that it holds the lock")
	}
}

// call tells of one answer: of the calls about the payout, and of those about its lock while it is being worked on.
func (t *transcript) call(e *history.Event) {
	if e.Stage != history.Answered || e.Op.Read() {
		return
	}
	about := e.Payout == t.payout && e.Op != contract.OpTransfer
	lock := t.account != "" && !t.over && e.Key == "payout:"+t.account
	switch {
	case about:
		t.lines = append(t.lines, t.grants...)
		t.grants = nil
		t.say(string(e.Proc), "%-10s X-Fencing-Token: %-6d → %s", e.Op, e.Token, reply(e))
	case lock && e.Op == contract.OpAcquire && e.Type == contract.OK:
		// It belongs to the payout only if a call about the payout follows.
		text := fmt.Sprintf("%-18s %-35s → granted, token %d", "["+string(e.Proc)+"]", "acquire the account's lock", e.Granted)
		t.grants = []utterance{{t.now, text}}
	}
}

func reply(e *history.Event) string {
	switch {
	case e.Status == 0:
		return "no answer (" + cmp.Or(e.Msg, "unknown") + ")"
	case e.Code == contract.FencedOut:
		return fmt.Sprintf("%d FENCED_OUT: %d is not greater than %d", e.Status, e.Token, e.Highest)
	case e.Code != "":
		return fmt.Sprintf("%d %s", e.Status, e.Code)
	case e.Outcome != "":
		return fmt.Sprintf("%d %s", e.Status, e.Outcome)
	default:
		return fmt.Sprint(e.Status)
	}
}

// commit tells of one transaction, if it changed anything of the payout: its state, its account's fence and balance, the
// rail's mark and record.
func (t *transcript) commit(changes []history.Change) {
	if !slices.ContainsFunc(changes, func(c history.Change) bool { return cmp.Or(c.New["payout_id"], c.Old["payout_id"]) == t.payout }) {
		return
	}
	for _, c := range changes {
		switch c.Table {
		case "payout":
			t.payoutRow(c)
		case "account":
			t.accountRow(c)
		case "rail_high_water":
			t.say("paydb", "rail_high_water %s → %s", cmp.Or(c.Old["highest_token"], "none"), c.New["highest_token"])
		case "rail_submission":
			t.say("paydb", "rail_submission under token %s: %s", c.New["presented_token"], cmp.Or(c.New["outcome"], "about to be forwarded"))
		}
	}
}

func (t *transcript) payoutRow(c history.Change) {
	if c.Kind == history.Insert {
		t.account, t.currency = c.New["account_id"], c.New["currency"]
		t.say("paydb", "payout of %s on account %s is %s", minor(c.New["amount_minor"], t.currency), t.account, c.New["state"])
		return
	}
	was, is := c.Old["state"], c.New["state"]
	t.over = contract.State(is).Terminal()
	if was == is {
		t.say("paydb", "payout stays %s, claim token %s → %s", is, c.Old["claim_token"], c.New["claim_token"])
		return
	}
	t.say("paydb", "payout %s → %s, claim token %s", was, is, c.New["claim_token"])
}

func (t *transcript) accountRow(c history.Change) {
	if c.Kind != history.Update || c.New["account_id"] != t.account {
		return // the clearing account's leg
	}
	if c.Old["fence"] != c.New["fence"] {
		t.say("paydb", "account.fence %s → %s", c.Old["fence"], c.New["fence"])
	}
	if c.Old["balance_minor"] != c.New["balance_minor"] {
		t.say("paydb", "account.balance %s → %s", minor(c.Old["balance_minor"], t.currency), minor(c.New["balance_minor"], t.currency))
	}
}
