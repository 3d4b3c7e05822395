package reconciler

import (
	"testing"
	"time"

	"fenceproof/system/payment/machine"
	"fenceproof/system/payment/paymentclient"
)

func TestOnlyEvidenceDecides(t *testing.T) {
	const window = time.Minute
	p := paymentclient.Payout{PayoutID: "p", AmountMinor: 100, Currency: "EUR"}
	due := transfer{RailReference: "r-1", ClientRef: "p", AmountMinor: 100, Currency: "EUR"}
	again := transfer{RailReference: "r-2", ClientRef: "p", AmountMinor: 100, Currency: "EUR"}
	less := transfer{RailReference: "r-3", ClientRef: "p", AmountMinor: 99, Currency: "EUR"}
	dollars := transfer{RailReference: "r-4", ClientRef: "p", AmountMinor: 100, Currency: "USD"}
	for name, c := range map[string]struct {
		found     []transfer
		seenFor   time.Duration
		finding   machine.Finding
		reference string
		alarm     bool
	}{
		"no transfer at first sight":                       {nil, 0, "", "", false},
		"no transfer when the window is just over":         {nil, window, "", "", false},
		"no transfer after the window":                     {nil, window + 1, machine.Absent, "", false},
		"the transfer at first sight":                      {[]transfer{due}, 0, machine.Acked, "r-1", false},
		"the transfer after the window":                    {[]transfer{due}, 2 * window, machine.Acked, "r-1", false},
		"two transfers: paid, and once too often":          {[]transfer{due, again}, 0, machine.Acked, "r-1", true},
		"the transfer and one of another amount":           {[]transfer{less, due}, 0, machine.Acked, "r-1", true},
		"another amount only is no transfer and no lack":   {[]transfer{less}, 2 * window, "", "", true},
		"another currency only is no transfer and no lack": {[]transfer{dollars}, 2 * window, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(p, c.found, c.seenFor, window)
			if d.finding != c.finding || d.reference != c.reference || (d.alarm != "") != c.alarm {
				t.Errorf("decided %+v", d)
			}
		})
	}
}

func TestTheWindowCountsFromTheFirstSightAndNoListForgetsWhatItShows(t *testing.T) {
	a, b := paymentclient.Payout{PayoutID: "a"}, paymentclient.Payout{PayoutID: "b"}
	s, begin := sightings{}, time.Now()
	if fresh := s.see([]paymentclient.Payout{a, b}, begin); len(fresh) != 2 {
		t.Errorf("%d are new", len(fresh))
	}
	if fresh := s.see([]paymentclient.Payout{b}, begin.Add(time.Hour)); len(fresh) != 0 || s["b"].first != begin {
		t.Errorf("%d are new, b was first seen at %v and not at %v", len(fresh), s["b"].first, begin)
	}
	if s["a"] != nil {
		t.Error("a payout that is over is kept for ever")
	}
}
