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

func TestATranscriptTellsAKillFromAStop(t *testing.T) {
	tell := transcript{payout: "p1"}
	for _, phase := range []string{"inject", "seen", "heal", "healed"} {
		tell.stall(&history.Event{W: history.Nemesis, Op: "kill", Window: 1, Target: "paydb", Payout: "p1", Token: 44, Phase: phase})
	}
	var text []string
	for _, l := range tell.lines {
		text = append(text, l.text)
	}
	if got := strings.Join(text, "\n"); len(text) != 2 || !strings.Contains(got, "KILLED: what it had in hand for token 44") || !strings.Contains(got, "RUNS AGAIN") || strings.Contains(got, "STOPPED") {
		t.Errorf("it tells\n%s", got)
	}
}
