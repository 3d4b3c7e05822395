package invariant

import (
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// failovers counts what the promotions of lockdb's standby were good for. That one serves now, the nemesis' word is taken for;
// what it lacks of what its primary had, the lock store's log tells, and the wiretap what of that had been answered: see
// promotions.
type failovers struct {
	seen   int64 // standbys that were seen to serve in lockdb's place
	behind int64 // promoted servers that lacked commits of their primary, whoever had been told of those
	rows   int64 // keys of which the promoted server had another row than its primary, whoever had been told
	tokens int64 // that had been answered to acquires, and of which the promoted server knew nothing
	undone int64 // answers of all kinds whose effects the promoted server lacked

	excused int64 // answers whose effects it lacked, and a call of unknown end may have taken away
	cut     int64 // promoted servers that lacked more than is remembered
	unknown int64 // promoted servers that could not be compared
}

func (f *failovers) hear(e *history.Event) {
	if promotes(e) && e.Phase == "seen" {
		f.seen++
	}
}

// The faults that promote a standby: one that every commit waits for, and one that nobody waits for.
const (
	opFailover      = "failover"
	opFailoverAsync = "failover-async"
)

// promotes tells whether a fault, where one is known, promotes a standby.
func promotes(fault *history.Event) bool {
	return fault != nil && (fault.Op == opFailover || fault.Op == opFailoverAsync)
}

// counts are the counters as a fold shows them: nothing of them where no standby took over.
func (f *failovers) counts() map[string]int64 {
	if f.seen == 0 {
		return nil
	}
	all := map[string]int64{
		verdict.Failovers: f.seen, verdict.StandbysBehind: f.behind, "rows_set_back": f.rows, verdict.TokensLost: f.tokens, verdict.AnswersUndone: f.undone,
	}
	for name, n := range map[string]int64{verdict.AnswersExcused: f.excused, verdict.LossesCut: f.cut, verdict.LossesUnknown: f.unknown} {
		if n > 0 { // hardly ever
			all[name] = n
		}
	}
	return all
}
