package verdict

import "testing"

// What is not known is not said to be nothing, and the least of a number not to be all of it.
func TestWhatPromotedStandbysLackedIsToldAsFarAsItIsKnown(t *testing.T) {
	for says, met := range map[string]map[string]int64{
		"": {"tokens_lost": 3},
		"1 promoted standby lacked nothing that had been answered":                                                                                 {Failovers: 1},
		"2 promoted standbys lacked 12 tokens that had been answered, and the effects of 34 answers in all":                                        {Failovers: 2, TokensLost: 12, AnswersUndone: 34},
		"1 promoted standby lacked at least 5 tokens that had been answered, and the effects of at least 9 answers in all":                         {Failovers: 1, TokensLost: 5, AnswersUndone: 9, LossesCut: 1},
		"2 promoted standbys lacked nothing that had been answered, but for the effects of 1 answer that calls of unknown end may have taken away": {Failovers: 2, AnswersExcused: 1},
		"1 promoted standby lacked nothing that had been answered; of 1 promoted standby nobody knows what was lacking":                            {Failovers: 2, LossesUnknown: 1},
		"of 2 promoted standbys nobody knows what was lacking":                                                                                     {Failovers: 2, LossesUnknown: 2},
	} {
		if got := Losses([]Invariant{{ID: "INV-04"}, {ID: "DUR-01", Danger: met}}); got != says {
			t.Errorf("of %v it says %q", met, got)
		}
	}
}
