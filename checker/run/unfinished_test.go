package run

import (
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// moved is a commit that brings a payout to a state.
func moved(at time.Duration, payout string, s contract.State) history.Event {
	return history.Event{W: history.PayDB, Op: history.OpCommit, T: int64(at), Changes: []history.Change{
		{Table: "account", Kind: history.Update, New: map[string]string{"account_id": "a"}},
		{Table: "payout", Kind: history.Update, New: map[string]string{"payout_id": payout, "state": string(s)}},
	}}
}

func TestAPayoutIsOpenUnlessItIsAtItsEndOrAmbiguousInItsWindow(t *testing.T) {
	settings := verdict.Settings{Services: map[string]string{windowVariable: "5s", intervalVariable: "250ms", leaseVariable: "1s"}}
	const drained = 60 * time.Second // and 7.75 s of patience
	for name, c := range map[string]struct {
		commits []history.Event
		want    string
	}{
		"posted":                        {[]history.Event{moved(1, "p", contract.RailAcked), moved(2, "p", contract.Posted)}, ""},
		"abandoned":                     {[]history.Event{moved(1, "p", contract.Abandoned)}, ""},
		"in flight":                     {[]history.Event{moved(1, "p", contract.RailAcked)}, "1 payouts were still open when the drain ended"},
		"pending, two of them":          {[]history.Event{moved(1, "p", contract.Pending), moved(1, "q", contract.Pending)}, "2 payouts were still open when the drain ended"},
		"ambiguous, in its window":      {[]history.Event{moved(53*time.Second, "p", contract.RailAmbiguous)}, ""},
		"ambiguous for longer":          {[]history.Event{moved(52*time.Second, "p", contract.RailAmbiguous)}, "1 payouts were still open when the drain ended"},
		"touched again, ambiguous long": {[]history.Event{moved(1, "p", contract.RailAmbiguous), moved(59*time.Second, "p", contract.RailAmbiguous)}, "1 payouts were still open when the drain ended"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unfinished{}
			for _, e := range c.commits {
				u.observe(&e)
			}
			u.observe(&history.Event{W: history.Run, Op: history.OpPhase, Msg: "collect", T: int64(drained)})
			u.observe(&history.Event{W: history.Logs, Op: history.OpLog, T: int64(time.Hour)}) // what is collected later counts for nothing
			if got := u.sentence(settings); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhereNobodySaysHowLongTheWindowIsAnAmbiguousPayoutMayStayOne(t *testing.T) {
	u := &unfinished{}
	e := moved(1, "p", contract.RailAmbiguous)
	u.observe(&e)
	u.observe(&history.Event{W: history.Run, Op: history.OpPhase, Msg: "collect", T: int64(time.Hour)})
	if got := u.sentence(verdict.Settings{}); got != "" {
		t.Errorf("got %q", got)
	}
}
