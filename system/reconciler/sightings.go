package reconciler

import (
	"time"

	"fenceproof/system/payment/paymentclient"
)

// sighting is one payout since this process first saw it in RAIL_AMBIGUOUS. The time is of this process's monotonic
// clock and dies with it: after a restart the window begins anew, because nobody knows for how long the process was gone.
type sighting struct {
	first time.Time
	alarm string // the last alarm that was raised for it, so that each is raised once
}

// sightings are the payouts that are ambiguous, by id. One goroutine changes the map; each sighting belongs to whoever
// works on its payout.
type sightings map[string]*sighting

// see notes the payouts of one complete list, read by now: new ones are first seen now, and those that are not in it are
// over and forgotten, as no payout becomes ambiguous twice. It returns the new ones.
func (s sightings) see(list []paymentclient.Payout, now time.Time) (fresh []paymentclient.Payout) {
	listed := make(map[string]bool, len(list))
	for _, p := range list {
		listed[p.PayoutID] = true
		if s[p.PayoutID] == nil {
			s[p.PayoutID] = &sighting{first: now}
			fresh = append(fresh, p)
		}
	}
	for id := range s {
		if !listed[id] {
			delete(s, id)
		}
	}
	return fresh
}
