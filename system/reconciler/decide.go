package reconciler

import (
	"fmt"
	"time"

	"fenceproof/system/payment/machine"
	"fenceproof/system/payment/paymentclient"
)

// decision is what a look-up at the rail says about an ambiguous payout. Evidence is what makes it, never a guess: a
// transfer is there, or nothing can be on its way any more and none is there.
type decision struct {
	// finding is Acked or Absent; "" leaves the payout as it is.
	finding   machine.Finding
	reference string // the rail's, with Acked
	// alarm, where not "", says what a person must look at, whatever is decided.
	alarm string
}

// decide judges what the look-up showed. seenFor is the time from the first sight of the ambiguity to the send of the
// look-up, on the monotonic clock.
//
// A transfer of the payout's amount means that its money has moved, so it has to be posted, however many more there are:
// the others are money that nobody can call back from here, and an alarm. Transfers of other amounts only are neither
// this payout's money nor its absence: it stays, until an operator says what they are.
func decide(p paymentclient.Payout, found []transfer, seenFor, window time.Duration) decision {
	if len(found) == 0 {
		if seenFor > window {
			return decision{finding: machine.Absent}
		}
		return decision{}
	}
	var d decision
	var fitting, other int
	for _, t := range found {
		if t.AmountMinor != p.AmountMinor || t.Currency != p.Currency {
			other++
			continue
		}
		if fitting++; fitting == 1 {
			d.finding, d.reference = machine.Acked, t.RailReference
		}
	}
	if fitting != 1 || other > 0 {
		d.alarm = fmt.Sprintf("the rail shows %d transfers of %d %s and %d of another amount; one transfer is due",
			fitting, p.AmountMinor, p.Currency, other)
	}
	return d
}
