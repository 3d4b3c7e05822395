package reports

import (
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestWhatARunStoodIsSaidInOneSentence(t *testing.T) {
	for want, b := range map[string]blows{
		"": {}, "Processes were stopped 3 times. ": {stops: 3}, "Processes were killed once. ": {kills: 1},
		"Processes were stopped 2 times and killed 4 times. ": {stops: 2, kills: 4},
	} {
		if got := b.sentence(); got != want {
			t.Errorf("%+v: %q, want %q", b, got, want)
		}
	}
}

func TestAKillLastsUntilWhatWasKilledRunsAgain(t *testing.T) {
	s := newSurvey(nil)
	for i, phase := range []string{"inject", "seen", "heal", "healed"} {
		s.fault(&history.Event{W: history.Nemesis, Type: contract.Info, Op: "kill", Window: 1, Target: "paydb", Phase: phase, T: int64(i+1) * 1_000_000})
	}
	if w := s.windows[1]; w.From != 2000 || w.To != 4000 || s.blows != (blows{kills: 1}) {
		t.Errorf("it lasts from %d µs to %d µs; %+v", w.From, w.To, s.blows)
	}
}

func TestABlowThatWasNotSeenIsNotCounted(t *testing.T) {
	s := newSurvey(nil)
	for window, phases := range [][]string{{"failed"}, {"inject", "failed", "heal", "healed"}, {"inject", "seen", "heal", "failed"}} {
		for _, op := range []contract.Op{"pause", "kill"} {
			for _, phase := range phases {
				n := 2*window + len(op)%2 + 1 // a window of its own
				s.fault(&history.Event{W: history.Nemesis, Op: op, Window: n, Target: "paydb", Phase: phase})
			}
		}
	}
	if s.blows != (blows{stops: 1, kills: 1}) {
		t.Errorf("%+v", s.blows)
	}
}

func TestATranscriptSaysOfEachWhomItHit(t *testing.T) {
	tell := transcript{payout: "p1"}
	hit := func(op contract.Op, target, phase string) string {
		tell.lines = nil
		tell.stall(&history.Event{W: history.Nemesis, Op: op, Window: 1, Target: target, Payout: "p1", Token: 44, Phase: phase})
		if len(tell.lines) == 0 {
			return ""
		}
		return tell.lines[0].text
	}
	for _, c := range []struct {
		op            contract.Op
		target, phase string
		says, notSays string
	}{
		{"kill", "paydb", "seen", "not committed", "in hand"},
		{"kill", "executor-1", "seen", "in hand for token 44", "committed"},
		{"pause", "executor-1", "seen", "holds token 44", "answers nothing"},
		{"pause", "paydb", "seen", "answers nothing", "holds"},
		{"pause", "paydb", "healed", "GOES ON", "believes"},
		{"revoke", "executor-1", "seen", "", "STOPPED"},
		{"revoke", "executor-1", "healed", "", "GOES ON"},
	} {
		if got := hit(c.op, c.target, c.phase); !strings.Contains(got, c.says) || strings.Contains(got, c.notSays) || c.says == "" && got != "" {
			t.Errorf("%s of %s, %s: it says %q", c.op, c.target, c.phase, got)
		}
	}
}

func TestATranscriptTellsAKillFromAStop(t *testing.T) {
	tell := transcript{payout: "p1"}
	for _, phase := range []string{"inject", "seen", "heal", "healed"} {
		tell.stall(&history.Event{W: history.Nemesis, Op: "kill", Window: 1, Target: "executor-1", Payout: "p1", Token: 44, Phase: phase})
	}
	var text []string
	for _, l := range tell.lines {
		text = append(text, l.text)
	}
	if got := strings.Join(text, "\n"); len(text) != 2 || !strings.Contains(got, "KILLED: what it had in hand for token 44") || !strings.Contains(got, "RUNS AGAIN") || strings.Contains(got, "STOPPED") {
		t.Errorf("it tells\n%s", got)
	}
}
