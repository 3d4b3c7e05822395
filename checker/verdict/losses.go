package verdict

import "fmt"

// Counters of Invariant.Danger that say what promotions of lockdb's standby were like.
const (
	Failovers      = "failovers"       // standbys that were seen to serve in lockdb's place
	StandbysBehind = "standbys_behind" // of those, the ones that lacked commits of their primary
	TokensLost     = "tokens_lost"     // answered to acquires, and not known to the promoted server
	AnswersUndone  = "answers_undone"  // answers of all kinds whose effects the promoted server lacked
	AnswersExcused = "answers_excused" // besides, those whose effects a call of unknown end may have taken away
	LossesCut      = "losses_cut"      // promoted standbys that lacked more than is remembered: what is counted is the least
	LossesUnknown  = "losses_unknown"  // promoted standbys of which nobody knows what they lacked
)

// Losses says in one clause how much of what had been answered the standbys lacked that were promoted in a run, "" where none
// was.
func Losses(invariants []Invariant) string {
	met := map[string]int64{}
	for _, inv := range invariants {
		for _, counter := range []string{Failovers, TokensLost, AnswersUndone, AnswersExcused, LossesCut, LossesUnknown} {
			met[counter] = max(met[counter], inv.Danger[counter])
		}
	}
	known := met[Failovers] - met[LossesUnknown]
	standbys, unknown := plural(known, "promoted standby"), ""
	if met[LossesUnknown] > 0 {
		unknown = fmt.Sprintf("; of %s nobody knows what was lacking", plural(met[LossesUnknown], "promoted standby"))
	}
	switch {
	case met[Failovers] == 0:
		return ""
	case known <= 0:
		return unknown[len("; "):]
	case met[AnswersUndone] > 0:
		least := ""
		if met[LossesCut] > 0 {
			least = "at least "
		}
		return fmt.Sprintf("%s lacked %s%s that had been answered, and the effects of %s%s in all", standbys, least, plural(met[TokensLost], "token"), least, plural(met[AnswersUndone], "answer")) + unknown
	case met[AnswersExcused] > 0:
		return fmt.Sprintf("%s lacked nothing that had been answered, but for the effects of %s that calls of unknown end may have taken away", standbys, plural(met[AnswersExcused], "answer")) + unknown
	}
	return standbys + " lacked nothing that had been answered" + unknown
}
