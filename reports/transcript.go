package reports

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/reissue"
)

// ErrWhichPayout says that the payouts asked for are not ones of the run, or not clearly one.
var ErrWhichPayout = errors.New("which payout is meant is not clear")

// Transcript writes what happened to payouts as plain text, one line per answer, row change and stop, each effect before
// the answer that reports it. Payouts are named by their ids or by how these begin. Without any it tells of those whose
// holder a nemesis hit, else of the one that most is to be told about. The error wraps ErrWhichPayout when the run has no such payouts.
func Transcript(w io.Writer, historyDir string, payouts ...string) error {
	payouts, err := named(historyDir, payouts)
	if err != nil {
		return err
	}
	for i, p := range payouts {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return fmt.Errorf("write the transcript: %w", err)
			}
		}
		t := newTranscript(p)
		if err := each(historyDir, t.observe); err != nil {
			return err
		}
		if _, err := io.WriteString(w, t.text()); err != nil {
			return fmt.Errorf("write the transcript: %w", err)
		}
	}
	return nil
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

// utterance is one line of a transcript with its place.
type utterance struct {
	place
	text string
}

// transcript collects the lines about one payout and its account. The telling places what happened without a call.
type transcript struct {
	payout, account, currency string
	tell                      *telling
	links                     map[string]contract.Link
	open                      map[int64]*call
	lines                     []utterance
	effects                   [][]string  // the lines of each fact of the telling
	grants                    []utterance // acquires of the account that the payout may turn out to belong to
	hits                      []hit       // on the account's grants, until one turns out to have been the payout's
	tokens                    []int64     // under which calls about the payout were made
	over                      bool        // the payout has ended: later grants of the account are for others
	issued                    *issued
	again                     *reissue.Pair // the event in hand grants a token that had been issued before
	resets                    []utterance   // of the lock store, until one turns out to concern the payout
}

// hit is what befell a grant or its holder, and how that is told.
type hit struct {
	token int64
	told  utterance
}

func newTranscript(payout string) *transcript {
	return &transcript{payout: payout, tell: newTelling(&digest{id: payout}, math.MaxInt), links: map[string]contract.Link{}, open: map[int64]*call{}, issued: newIssued()}
}

func line(who, format string, args ...any) string {
	return fmt.Sprintf("%-18s %s", "["+who+"]", fmt.Sprintf(format, args...))
}

func (t *transcript) text() string {
	lines := t.lines
	for n, at := range t.tell.placeFacts() {
		for _, text := range t.effects[n] {
			lines = append(lines, utterance{at, text})
		}
	}
	slices.SortStableFunc(lines, func(a, b utterance) int {
		switch {
		case a.before(b.place):
			return -1
		case b.before(a.place):
			return 1
		}
		return 0
	})
	var b strings.Builder
	fmt.Fprintf(&b, "payout %s\n", t.payout)
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

func (t *transcript) observe(e *history.Event) {
	t.again = t.issued.observe(e)
	switch e.W {
	case history.Wiretap:
		t.call(e)
	case history.PayDB:
		t.commit(e)
	case history.Journal:
		if e.Op == history.OpMoney && e.Payout == t.payout {
			t.tell.fact(fact{at: e.T, i: e.I, money: true})
			t.effects = append(t.effects, []string{line("rail", "MONEY MOVED: %s, %s", money(e.Amount, e.Currency), e.RailRef)})
		}
	case history.Nemesis:
		t.stall(e)
		t.reset(e)
	}
}

// stall tells of the stops and kills that began with a call about the payout, or with a grant of its account. Whom they hit may have it in hand, or serve
// whoever has.
func (t *transcript) stall(e *history.Event) {
	grant := e.Payout == "" && t.account != "" && e.Key == keyPrefix+t.account
	if e.Payout != t.payout && !grant {
		return
	}
	text, link := overLink(e)
	if !link {
		if text = blow(e); text != "" {
			text = line(e.Target, "%s", text)
		}
	}
	switch told := (utterance{place{at: e.T, i: e.I}, text}); {
	case text == "":
	case grant:
		t.hits = append(t.hits, hit{e.Token, told})
		t.tellHits()
	default:
		t.lines = append(t.lines, told)
	}
}

// blow is what a stop or a kill does to whom it hits, "" where e tells of none. What a store has committed outlives it, and
// only an executor holds the token.
func blow(e *history.Event) string {
	holder := contract.Process(e.Target).IsExecutor()
	switch fmt.Sprint(e.Op, " ", e.Phase) {
	case "kill seen":
		if holder {
			return fmt.Sprintf("KILLED: what it had in hand for token %d is gone with it", e.Token)
		}
		return fmt.Sprintf("KILLED during a call under token %d: what it had not committed is gone with it", e.Token)
	case "kill healed":
		return "RUNS AGAIN: it knows what is on disk, and nothing else"
	case "pause seen":
		if holder {
			return fmt.Sprintf("STOPPED: it holds token %d, has checked its lease and not yet written", e.Token)
		}
		return fmt.Sprintf("STOPPED during a call under token %d: it executes nothing and answers nothing", e.Token)
	case "pause healed":
		if holder {
			return "GOES ON: it still believes that it holds the lock"
		}
		return "GOES ON where it was"
	}
	return ""
}

// call tells of the answers: of the calls about the payout, and of those about its lock while it is being worked on.
func (t *transcript) call(e *history.Event) {
	if e.Op.Read() {
		return
	}
	if e.Payout == t.payout {
		t.about(e)
		return
	}
	lock := t.account != "" && !t.over && e.Key == keyPrefix+t.account
	if lock && e.Stage == history.Answered && e.Op == contract.OpAcquire && e.Type == contract.OK {
		// It belongs to the payout only if a call about the payout follows.
		text := line(string(e.Proc), "%-35s → granted, token %d", "acquire the account's lock", e.Granted) + t.reissued()
		t.grants = []utterance{{place{at: e.T, i: e.I}, text}}
	}
	if lock && e.Stage == history.Answered && e.Op == contract.OpRevoke && e.Type == contract.OK {
		token := bodyNumber(e.Res, "revokedToken")
		text := line(string(e.Proc), "%-35s → token %d is worth nothing any more", "revoke the grant of the account", token)
		t.hits = append(t.hits, hit{token, utterance{place{at: e.T, i: e.I}, text}})
		t.tellHits()
	}
}

// tellHits tells those on grants that were the payout's.
func (t *transcript) tellHits() {
	t.hits = slices.DeleteFunc(t.hits, func(h hit) bool {
		ours := slices.Contains(t.tokens, h.token)
		if ours {
			t.lines = append(t.lines, h.told)
		}
		return ours
	})
}

// about follows a call about the payout. The proxy's call of the rail only places what it led to.
func (t *transcript) about(e *history.Event) {
	if e.Stage == history.Received {
		c := begin(e, t.links)
		t.open[c.id] = c
		t.tell.call(c)
		return
	}
	if c := t.open[e.Call]; c != nil {
		c.advance(e)
	}
	if e.Stage != history.Answered {
		return
	}
	delete(t.open, e.Call)
	if e.Op == contract.OpTransfer {
		return
	}
	t.lines = append(t.lines, t.grants...)
	t.grants = nil
	if e.Token != 0 && !slices.Contains(t.tokens, e.Token) {
		t.tokens = append(t.tokens, e.Token)
		t.tellHits()
	}
	t.lines = append(t.lines, utterance{place{at: e.T, i: e.I}, line(string(e.Proc), "%-10s X-Fencing-Token: %-6d → %s", e.Op, e.Token, reply(e)+t.behind(e))})
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
func (t *transcript) commit(e *history.Event) {
	if !slices.ContainsFunc(e.Changes, func(c history.Change) bool { return cmp.Or(c.New["payout_id"], c.Old["payout_id"]) == t.payout }) {
		return
	}
	f := fact{at: e.T, i: e.I}
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, line("paydb", format, args...)) }
	for i := range e.Changes {
		c := &e.Changes[i]
		switch c.Table {
		case "payout":
			if c.New["payout_id"] == t.payout {
				f.token = c.New["claim_token"]
				t.payoutRow(c, say)
			}
		case "account":
			t.accountRow(c, say)
		case "rail_high_water":
			say("rail_high_water %s → %s", cmp.Or(c.Old["highest_token"], "none"), c.New["highest_token"])
		case "rail_submission":
			f.rail, f.token = true, c.New["presented_token"]
			say("rail_submission under token %s: %s", c.New["presented_token"], cmp.Or(c.New["outcome"], "about to be forwarded"))
		}
	}
	if len(lines) > 0 {
		t.tell.fact(f)
		t.effects = append(t.effects, lines)
	}
}

func (t *transcript) payoutRow(c *history.Change, say func(string, ...any)) {
	if c.Kind == history.Insert {
		t.account, t.currency = c.New["account_id"], c.New["currency"]
		say("payout of %s on account %s is %s", minor(c.New["amount_minor"], t.currency), t.account, c.New["state"])
		return
	}
	was, is := c.Old["state"], c.New["state"]
	t.over = contract.State(is).Terminal()
	if was == is {
		say("payout stays %s, claim token %s → %s", is, c.Old["claim_token"], c.New["claim_token"])
		return
	}
	say("payout %s → %s, claim token %s", was, is, c.New["claim_token"])
}

func (t *transcript) accountRow(c *history.Change, say func(string, ...any)) {
	if c.Kind != history.Update || c.New["account_id"] != t.account {
		return // the clearing account's leg
	}
	if c.Old["fence"] != c.New["fence"] {
		say("account.fence %s → %s", c.Old["fence"], c.New["fence"])
	}
	if c.Old["balance_minor"] != c.New["balance_minor"] {
		say("account.balance %s → %s", minor(c.Old["balance_minor"], t.currency), minor(c.New["balance_minor"], t.currency))
	}
}
