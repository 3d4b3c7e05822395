package verdict

import "fmt"

// Counters of Invariant.Danger that say what promotions of lockdb's standby were like.
const (
	Failovers      = "failovers"       // standbys that were seen to serve in lockdb's place
	StandbysBehind = "standbys_behind" // of those, the ones that lacked commits of their primary
	TokensLost     = "tokens_lost"     // answered to acquires, and not known to the promoted server
	AnswersUndone  = "answers_undone"  // answers of all kinds whose effects the promoted server lacked
)

// Losses says in one clause how much of what had been answered the standbys lacked that were promoted in a run, "" where none
// was.
func Losses(invariants []Invariant) string {
	met := map[string]int64{}
	for _, inv := range invariants {
		for _, counter := range []string{Failovers, TokensLost, AnswersUndone} {
			met[counter] = max(met[counter], inv.Danger[counter])
		}
	}
	standbys := plural(met[Failovers], "promoted standby")
	switch {
	case met[Failovers] == 0:
		return ""
	case met[AnswersUndone] == 0:
		return standbys + " lacked nothing that had been answered"
	}
	return fmt.Sprintf("%s lacked %s that had been answered, and the effects of %s in all", standbys, plural(met[TokensLost], "token"), plural(met[AnswersUndone], "answer"))
}
