package reports

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

var eof = io.EOF

// evil is a text that breaks out of everything that is not escaped.
const evil = `</script><script>window.broken=1</script><img src=x onerror="window.broken=1">"'&]]>` + "\u2028`${window.broken=1}` {{.}} --> <!--"

// poison puts evil into every text of the evidence and of the verdict.
func poison(s *scene, run *verdict.Run) {
	for i := range s.events {
		e := &s.events[i]
		for _, text := range []*string{&e.Payout, &e.Account, &e.Key, &e.Owner, &e.Req, &e.Res, &e.Currency, &e.RailRef, &e.Target, &e.Event, &e.Msg, &e.Phase, &e.Link} {
			switch {
			case *text == "":
			case strings.HasPrefix(*text, "payout:"):
				*text = "payout:" + strings.TrimPrefix(*text, "payout:") + evil
			case text == &e.Link:
				*text += evil
			case text == &e.Phase || text == &e.Req || text == &e.Res:
			default:
				*text += evil
			}
		}
		e.Proc += contract.Process(evil)
		if e.Code != "" && e.Code != contract.FencedOut {
			e.Code += evil
		}
		for c := range e.Changes {
			for _, row := range []map[string]string{e.Changes[c].Old, e.Changes[c].New} {
				for k := range row {
					if !strings.Contains(row[k], evil) {
						row[k] += evil
					}
				}
			}
		}
	}
	run.ID, run.Reason = run.ID+evil, run.Reason+evil
	run.Settings.Command, run.Settings.Nemesis = run.Settings.Command+evil, run.Settings.Nemesis+evil
	run.Settings.Services = map[string]string{"A" + evil: evil}
	run.Versions, run.Payouts = map[string]string{evil: evil}, map[string]int64{evil: 1}
	run.Gaps, run.Operations = map[string]string{evil: evil}, map[string]int64{evil: 2}
	for i := range run.Invariants {
		inv := &run.Invariants[i]
		inv.Guarantee, inv.Reason, inv.Danger = inv.Guarantee+evil, evil, map[string]int64{evil: 1}
	}
}

// poisoned is the report of a violated run whose every text is evil.
func poisoned(t testing.TB) (verdict.Run, []byte) {
	s := play(3, true, 3, 3, 4*time.Second)
	run := verdictOf(s, "rail-off")
	poison(&s, &run)
	for i := range s.lates { // the verdict quotes the poisoned history
		s.lates[i].job.payout += evil
		s.lates[i].job.account += evil
	}
	run.Invariants[4].Danger = map[string]int64{evil: 1}
	accuse(&run, s)
	run.Invariants[1].Violations[0].Sentence += evil
	run.Invariants[1].Violations[0].Key = evil
	html, err := build(run, inMemory(s.events), MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return run, html
}

func TestEvidenceCannotBreakOutOfThePage(t *testing.T) {
	_, raw := poisoned(t)
	html := string(raw)
	if n := strings.Count(html, "<script"); n != 2 {
		t.Errorf("the page has %d script elements, want the data and the page's own", n)
	}
	if strings.Contains(html, "<img") || strings.Contains(html, "<!--") {
		t.Error("markup of the evidence is markup of the page")
	}
	body := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(html)
	if body == nil {
		t.Fatal("the data is not in the page")
	}
	if strings.ContainsAny(body[1], "<>&\u2028") {
		t.Error("the embedded data holds characters that end or change a script element")
	}
	var data struct {
		Accounts []string
		Stories  []struct{ Payout string }
	}
	if err := json.Unmarshal([]byte(body[1]), &data); err != nil {
		t.Fatal(err)
	}
	if len(data.Accounts) == 0 || !strings.HasSuffix(data.Accounts[0], evil) || len(data.Stories) == 0 || !strings.HasSuffix(data.Stories[0].Payout, evil) {
		t.Error("the hostile ids are not in the data as they were: the test tests nothing")
	}
}

func TestThePageMayReachNothing(t *testing.T) {
	_, html := poisoned(t)
	head, _, _ := strings.Cut(string(html), "<style>")
	policy, _, _ := strings.Cut(head[strings.Index(head, "Content-Security-Policy"):], ">")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("the page's policy does not forbid everything: %s", policy)
	}
}

func TestTheHeadlineSaysWhatTheRunHasShown(t *testing.T) {
	healthy := play(7, false, 12, 5, 12*time.Second)
	broken := play(7, true, 12, 5, 12*time.Second)
	violated := verdictOf(broken, "rail-off")
	accuse(&violated, broken)
	control := violated
	control.Expect, control.Exit = &verdict.Expectation{Must: []string{"INV-02", "INV-05"}, Met: true}, 0
	missed := violated
	missed.Expect = &verdict.Expectation{Must: []string{"INV-01"}, Missing: []string{"INV-01"}, Surplus: []string{"INV-02"}}
	harness := verdictOf(healthy, "on")
	harness.Harness, harness.Exit = "the lock server did not start", 255
	mild := verdictOf(healthy, "on")
	mild.Overall, mild.Reason = verdict.NotExercised, "INV-05 met 0 stale writes at the rail, needs 10"
	for name, c := range map[string]struct {
		run  verdict.Run
		word string
		want []string
		not  string
	}{
		"pass":      {verdictOf(healthy, "on"), "Pass", []string{token(healthy.rail) + " at the rail", token(healthy.row) + " at the account row"}, "iolated"},
		"violated":  {violated, "Violated", []string{"Payout", "was paid twice", "under token"}, "held"},
		"control":   {control, "Control met", []string{"INV-02 and INV-05 fell", "rail-off"}, "held"},
		"missed":    {missed, "Control not met", []string{"INV-01 had to fall", "INV-02 fell without"}, "held"},
		"harness":   {harness, "The harness failed", []string{"did not start"}, "held"},
		"too mild":  {mild, "Not exercised", []string{"needs 10"}, "held"},
		"no status": {verdict.Run{}, "Inconclusive", []string{"does not suffice"}, "held"},
	} {
		t.Run(name, func(t *testing.T) {
			h := headlineOf(c.run, blows{stops: 3})
			if h.Word != c.word {
				t.Errorf("the word is %q, want %q", h.Word, c.word)
			}
			for _, want := range c.want {
				if !strings.Contains(h.Sentence, want) {
					t.Errorf("the sentence lacks %q: %s", want, h.Sentence)
				}
			}
			if strings.Contains(h.Sentence, c.not) {
				t.Errorf("the sentence says %q: %s", c.not, h.Sentence)
			}
		})
	}
}

func TestAPassNeverClaimsWhatWasNotJudged(t *testing.T) {
	s := play(7, false, 12, 5, 12*time.Second)
	run := verdictOf(s, "on")
	run.Invariants = append(run.Invariants[:1:1], run.Invariants[2:]...) // without INV-02
	if h := headlineOf(run, blows{stops: 3}); strings.Contains(h.Sentence+h.More, "paid twice") {
		t.Errorf("nobody judged payments, and yet: %s %s", h.Sentence, h.More)
	}
}

func TestTheSummaryAndJUnitAgreeWithTheVerdict(t *testing.T) {
	s := play(7, true, 12, 5, 12*time.Second)
	run := verdictOf(s, "rail-off")
	accuse(&run, s)
	run.Invariants[3].Status = verdict.Inconclusive
	md := Summary(run)
	for _, want := range []string{"## ✕ Violated: INV-02, INV-05", "| INV-04 | Inconclusive |", "| INV-01 | Pass |", "was paid twice", "```\nbin/fenceproof verify"} {
		if !strings.Contains(md, want) {
			t.Errorf("the summary lacks %q:\n%s", want, md)
		}
	}
	out, err := JUnit(run)
	if err != nil {
		t.Fatal(err)
	}
	var suite junitSuite
	if err := xml.Unmarshal(out, &suite); err != nil {
		t.Fatal(err)
	}
	if suite.Tests != 6 || suite.Failures != 3 || suite.Errors != 1 || suite.Skipped != 0 {
		t.Errorf("%d tests, %d failures, %d errors, %d skipped; 5 invariants, 2 violated, 1 inconclusive, and the run", suite.Tests, suite.Failures, suite.Errors, suite.Skipped)
	}
	run.Expect = &verdict.Expectation{Must: []string{"INV-02", "INV-05"}, Met: true}
	run.Exit = 0
	if out, err = JUnit(run); err != nil {
		t.Fatal(err)
	}
	suite = junitSuite{}
	if err := xml.Unmarshal(out, &suite); err != nil || suite.Tests != 1 || suite.Failures != 0 {
		t.Errorf("a control that was met has %d failures of %d tests: %v", suite.Failures, suite.Tests, err)
	}
}

func TestHostileTextsStayTextInTheMachineCopies(t *testing.T) {
	run, _ := poisoned(t)
	run.Settings.Command = "fenceproof ```\n```" + evil
	md, code, _ := strings.Cut(Summary(run), "````\n")
	if strings.Count(code, "\n") != 2 || !strings.HasSuffix(code, "\n````\n") {
		t.Errorf("the command ends its own block: %q", code)
	}
	if strings.Contains(md, "<script") || strings.Contains(md, "<img") {
		t.Errorf("the summary holds markup of the evidence:\n%s", md)
	}
	out, err := JUnit(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(out, &junitSuite{}); err != nil {
		t.Errorf("the XML is broken: %v", err)
	}
}

func TestEventsAreDescribedInWords(t *testing.T) {
	link := "executor-2→rail-proxy"
	for _, c := range []struct {
		e    history.Event
		who  string
		want string
	}{
		{history.Event{W: history.Wiretap, Proc: "executor-2", Op: contract.OpSubmit, Stage: history.Received, Link: link, Token: 41}, "executor-2", "sends submit to the rail"},
		{history.Event{W: history.Wiretap, Proc: "executor-2", Op: contract.OpSubmit, Stage: history.Answered, Link: link, Token: 41, Status: 409, Code: contract.FencedOut, Highest: 42}, "rail-proxy", "answers FENCED_OUT, highest token 42, to executor-2’s submit to the rail"},
		{history.Event{W: history.Wiretap, Proc: "executor-2", Op: contract.OpSubmit, Stage: history.Answered, Link: link}, "rail-proxy", "gives no answer to executor-2’s submit to the rail"},
		{history.Event{W: history.Journal, Op: history.OpMoney, Amount: 1250, Currency: "EUR", RailRef: "R-1"}, "rail", "money moved: 12.50 EUR, reference R-1"},
		{history.Event{W: history.PayDB, Op: history.OpCommit, Changes: []history.Change{{Table: "rail_high_water", Kind: history.Update, Old: map[string]string{"highest_token": "42"}, New: map[string]string{"highest_token": "41"}}}}, "rail-proxy", "commits mark 42 → 41"},
		{history.Event{W: history.PayDB, Op: history.OpCommit, Changes: []history.Change{{Table: "account", Kind: history.Update, Old: map[string]string{"fence": "1", "balance_minor": "500"}, New: map[string]string{"fence": "2", "balance_minor": "500"}}}}, "payment-resource", "commits fence 1 → 2"},
		{history.Event{W: history.PayDB, Op: history.OpLostPlace, Msg: "slot gone"}, "paydb", "lost its place: slot gone"},
	} {
		if got := phrase(&c.e); got.Who != c.who || got.What != c.want {
			t.Errorf("%s %s: %q %q, want %q %q", c.e.W, c.e.Stage, got.Who, got.What, c.who, c.want)
		}
	}
}

func TestMoneyHasTheDecimalsOfItsCurrency(t *testing.T) {
	for _, c := range []struct {
		n        int64
		currency string
		want     string
	}{{1250, "EUR", "12.50 EUR"}, {5, "EUR", "0.05 EUR"}, {-5, "EUR", "−0.05 EUR"}, {1250, "JPY", "1250 JPY"}, {1250, "KWD", "1.250 KWD"}, {0, "EUR", "0.00 EUR"}} {
		if got := money(c.n, c.currency); got != c.want {
			t.Errorf("%d %s is %q, want %q", c.n, c.currency, got, c.want)
		}
	}
}

func TestQuantilesAreWithinNinePercent(t *testing.T) {
	for _, top := range []int64{7, 100, 5_000, 3_000_000} {
		var h histogram
		for i := int64(1); i <= top; i++ {
			h.add(i)
		}
		for _, q := range []float64{0.5, 0.99} {
			want := float64(top) * q
			if got := float64(h.quantile(q)); got < want*0.95-1 || got > want*1.10+1 {
				t.Errorf("the %v quantile of 1…%d is %v", q, top, got)
			}
		}
	}
	if (&histogram{}).quantile(0.5) != -1 {
		t.Error("nothing has a quantile")
	}
}
