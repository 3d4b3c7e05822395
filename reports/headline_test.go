package reports

import (
	"strings"
	"testing"

	"fenceproof/checker/verdict"
)

func TestAFailedHarnessHidesNoViolationAndIsHiddenByNone(t *testing.T) {
	fallen := verdict.Invariant{ID: "INV-02", Status: verdict.Violated, Found: 1, Violations: []verdict.Violation{{Sentence: "the rail paid twice"}}}
	held := verdict.Invariant{ID: "INV-02", Status: verdict.Pass, Checked: 1}
	for name, c := range map[string]struct {
		invariant verdict.Invariant
		expect    *verdict.Expectation
		tone      string
		says      string
	}{
		"a violation": {fallen, nil, "violated", "The rail paid twice"},
		"none":        {held, nil, "broken", "no space left"},
		"a control":   {fallen, &verdict.Expectation{Must: []string{"INV-02"}}, "broken", "no space left"},
	} {
		run := verdict.Run{Invariants: []verdict.Invariant{c.invariant}, Expect: c.expect, Harness: "no space left"}
		run.Conclude()
		h := headlineOf(run, blows{})
		if h.Tone != c.tone || !strings.Contains(h.Sentence, c.says) || !strings.Contains(h.Sentence+h.More, "no space left") {
			t.Errorf("%s: %s: %s %s", name, h.Tone, h.Sentence, h.More)
		}
		if xml, err := JUnit(run); err != nil || strings.Contains(string(xml), `failures="0" errors="0"`) {
			t.Errorf("%s: JUnit says\n%s (%v)", name, xml, err)
		}
	}
}

func TestANemesisThatMayBreakSomethingIsTheHeadlineWhetherItHasOrNot(t *testing.T) {
	fallen := verdict.Invariant{ID: "INV-04", Status: verdict.Violated, Found: 1, Violations: []verdict.Violation{{Sentence: "token 7 was issued twice"}}}
	held := verdict.Invariant{ID: "INV-04", Status: verdict.Pass, Checked: 1}
	for word, c := range map[string]struct {
		invariant verdict.Invariant
		says      string
	}{
		"Violated as declared": {fallen, "INV-04 fell, and nothing else did"},
		"Not violated":         {held, "may break INV-04, and nothing fell"},
	} {
		run := verdict.Run{Invariants: []verdict.Invariant{c.invariant}, Expect: &verdict.Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-04"}}}
		run.Conclude()
		if h := headlineOf(run, blows{}); h.Tone != "pass" || h.Word != word || !strings.Contains(h.Sentence, c.says) {
			t.Errorf("%s: %s: %s %s", h.Tone, h.Word, h.Sentence, h.More)
		}
	}
}

// What a nemesis declares is met where nothing else fell; that alone is no success.
func TestARunThatMayBreakSomethingIsNoSuccessWhereNobodyKnows(t *testing.T) {
	fallen := verdict.Invariant{ID: "INV-04", Status: verdict.Violated, Found: 1, Violations: []verdict.Violation{{Sentence: "token 7 was issued twice"}}}
	held := verdict.Invariant{ID: "INV-04", Status: verdict.Pass, Checked: 1}
	gap := verdict.Invariant{ID: "DUR-01", Status: verdict.Inconclusive, Reason: "the lock store's log ends too early"}
	mild := verdict.Invariant{ID: "DUR-01", Status: verdict.NotExercised, Reason: "no standby was promoted"}
	missed := verdict.Invariant{ID: "DUR-01", Status: verdict.Violated, Found: 1, Reason: "a grant is gone", Violations: []verdict.Violation{{Sentence: "a grant is gone"}}}
	for name, c := range map[string]struct {
		must, may    []string
		of           []verdict.Invariant
		tone, word   string
		says, expect string
	}{
		"nothing fell, and something is not known":   {nil, []string{"INV-04"}, []verdict.Invariant{held, gap}, "inconclusive", "Inconclusive", "the lock store's log ends too early", ""},
		"it fell, and something is not known":        {nil, []string{"INV-04"}, []verdict.Invariant{fallen, gap}, "inconclusive", "Inconclusive", "the lock store's log ends too early", ""},
		"it had to fall and did, and another is not": {[]string{"INV-04"}, nil, []verdict.Invariant{fallen, gap}, "inconclusive", "Inconclusive", "the lock store's log ends too early", ""},
		"nothing fell, and the run was too mild":     {nil, []string{"INV-04"}, []verdict.Invariant{held, mild}, "idle", "Not exercised", "no standby was promoted", ""},
		"something else fell":                        {nil, []string{"INV-04"}, []verdict.Invariant{held, missed}, "violated", "Not as declared", "DUR-01 fell without being named", "may break INV-04, and nothing else"},
		"what had to fall did not":                   {[]string{"INV-04"}, []string{"LIVE-01"}, []verdict.Invariant{held}, "violated", "Not as declared", "INV-04 had to fall and did not", "breaks INV-04, may break LIVE-01, and nothing else"},
	} {
		run := verdict.Run{Invariants: c.of, Expect: &verdict.Expectation{DeclaredBy: "failover-async", Must: append([]string{}, c.must...), May: c.may}}
		run.Conclude()
		h := headlineOf(run, blows{})
		if run.Exit == verdict.ExitPass || h.Tone != c.tone || h.Word != c.word || !strings.Contains(h.Sentence, c.says) || !strings.Contains(h.More, c.expect) {
			t.Errorf("%s (exit %d): %s: %s: %s %s", name, run.Exit, h.Tone, h.Word, h.Sentence, h.More)
		}
		if xml, err := JUnit(run); err != nil || strings.Contains(string(xml), `failures="0" errors="0"`) || strings.Contains(string(xml), "Control") {
			t.Errorf("%s: JUnit says\n%s (%v)", name, xml, err)
		}
	}
}

// What fell as a nemesis declares shows nothing of what another one of the run did.
func TestARunOfWhichOneNemesisDidNothingIsNotExercisedWhateverFellAsDeclared(t *testing.T) {
	fallen := verdict.Invariant{ID: "INV-04", Status: verdict.Violated, Found: 1, Violations: []verdict.Violation{{Sentence: "token 7 was issued twice"}}}
	run := verdict.Run{Settings: verdict.Settings{Workload: "payout", Nemesis: "pause,restore-unguarded"}, Invariants: []verdict.Invariant{fallen},
		Expect: &verdict.Expectation{DeclaredBy: "restore-unguarded", Must: []string{"INV-04"}}}
	run.Conclude()
	if h := headlineOf(run, blows{}); h.Tone != "idle" || h.Word != "Not exercised" || !strings.Contains(h.Sentence, "grants of a key after its first: 0") {
		t.Errorf("%s: %s: %s %s", h.Tone, h.Word, h.Sentence, h.More)
	}
}

func TestAControlThatIsMetAndWhoseRestIsNotKnownIsNotGreen(t *testing.T) {
	run := verdict.Run{Settings: verdict.Settings{Fencing: "rail-off"}, Expect: &verdict.Expectation{Must: []string{"INV-02"}}, Invariants: []verdict.Invariant{
		{ID: "INV-02", Status: verdict.Violated, Found: 1, Violations: []verdict.Violation{{Sentence: "the rail paid twice"}}},
		{ID: "INV-05", Status: verdict.NotExercised, Reason: "nothing stale arrived"},
	}}
	run.Conclude()
	if h := headlineOf(run, blows{}); h.Tone != "idle" || h.Word != "Control not met" || !strings.Contains(h.Sentence, "nothing stale arrived") {
		t.Errorf("%s: %s: %s %s", h.Tone, h.Word, h.Sentence, h.More)
	}
	run.Invariants[1] = verdict.Invariant{ID: "INV-05", Status: verdict.Pass}
	run.Conclude()
	if h := headlineOf(run, blows{}); h.Tone != "pass" || h.Word != "Control met" {
		t.Errorf("%s: %s: %s %s", h.Tone, h.Word, h.Sentence, h.More)
	}
}

func TestAControlThatWasCutShortSaysByWhat(t *testing.T) {
	run := verdict.Run{Settings: verdict.Settings{Fencing: "rail-off"}, Expect: &verdict.Expectation{Must: []string{"INV-02"}}, Invariants: []verdict.Invariant{
		{ID: "INV-02", Status: verdict.Inconclusive, Reason: "the journal was not read to its end"},
	}}
	run.Conclude()
	run.Doubt("interrupted (terminated)")
	if h := headlineOf(run, blows{}); h.Tone != "inconclusive" || h.Word != "Control not met" || !strings.Contains(h.Sentence, "nterrupted (terminated)") {
		t.Errorf("%s: %s: %s %s", h.Tone, h.Word, h.Sentence, h.More)
	}
}

func TestAControlThatHasCertainlyFailedSaysSoWhateverElseIsNotKnown(t *testing.T) {
	run := verdict.Run{Settings: verdict.Settings{Fencing: "rail-off"}, Expect: &verdict.Expectation{Must: []string{"INV-02"}}, Invariants: []verdict.Invariant{
		{ID: "INV-02", Status: verdict.Pass}, {ID: "DUR-01", Status: verdict.Inconclusive, Reason: "the journal was not read to its end"},
	}}
	run.Conclude()
	if h := headlineOf(run, blows{}); h.Tone != "violated" || h.Word != "Control not met" || !strings.Contains(h.Sentence, "INV-02 had to fall and did not") {
		t.Errorf("%s: %s: %s %s", h.Tone, h.Word, h.Sentence, h.More)
	}
}

func TestTheHeadlineSaysHowMuchThePromotedStandbysLacked(t *testing.T) {
	for says, danger := range map[string]map[string]int64{
		"2 promoted standbys lacked 12 tokens that had been answered, and the effects of 34 answers in all.":                                        {"failovers": 2, "tokens_lost": 12, "answers_undone": 34},
		"1 promoted standby lacked 1 token that had been answered, and the effects of 1 answer in all.":                                             {"failovers": 1, "tokens_lost": 1, "answers_undone": 1},
		"1 promoted standby lacked nothing that had been answered.":                                                                                 {"failovers": 1},
		"2 promoted standbys lacked nothing that had been answered, but for the effects of 1 answer that calls of unknown end may have taken away.": {"failovers": 2, "answers_excused": 1},
		"1 promoted standby lacked at least 4096 tokens that had been answered, and the effects of at least 5000 answers in all.":                   {"failovers": 1, "tokens_lost": 4096, "answers_undone": 5000, "losses_cut": 1},
		"1 promoted standby lacked nothing that had been answered; of 1 promoted standby nobody knows what was lacking.":                            {"failovers": 2, "losses_unknown": 1},
	} {
		inv := verdict.Invariant{ID: "DUR-01", Status: verdict.Pass, Checked: 1, Danger: danger}
		run := verdict.Run{Invariants: []verdict.Invariant{inv}, Expect: &verdict.Expectation{DeclaredBy: "failover-async", Must: []string{}, May: []string{"INV-04"}}}
		run.Conclude()
		h := headlineOf(run, blows{})
		if !strings.HasSuffix(h.More, says) || !strings.Contains(run.Reason, strings.TrimSuffix(says, ".")) || !strings.Contains(Summary(run), strings.TrimSuffix(says, ".")) {
			t.Errorf("the headline says %q, and the reason is %q", h.More, run.Reason)
		}
		run.Expect = nil
		run.Conclude()
		if h := headlineOf(run, blows{}); !strings.Contains(h.More, says) {
			t.Errorf("of a pass the headline says %q", h.More)
		}
	}
}

func TestAReasonInTheHeadlineIsAWholeSentence(t *testing.T) {
	for status, word := range map[verdict.Status]string{verdict.Inconclusive: "Inconclusive", verdict.NotExercised: "Not exercised"} {
		h := headlineOf(verdict.Run{Overall: status, Reason: "interrupted (terminated); 79830b1c-e3a3-4eb4-9bb7-9ad57ab4cb04 was still open"}, blows{})
		if h.Word != word || h.Sentence != "Interrupted (terminated); 79830b1c was still open." {
			t.Errorf("%s: %q", h.Word, h.Sentence)
		}
	}
}
