package reports

import (
	"sort"

	"fenceproof/checker/contract"
)

// Bounds of what the page holds. Together they keep it far below 10 MB; shrink lowers them further where long ids or
// texts would not.
type limits struct {
	stories, steps  int
	payouts, leases int
	marks, rungs    int
}

var fullLimits = limits{stories: 28, steps: 220, payouts: 12_000, leases: 15_000, marks: 6_000, rungs: 12_000}

// shrink halves what is long and dull; the stories go last.
func (l limits) shrink() limits {
	return limits{stories: max(l.stories*3/4, 4), steps: l.steps, payouts: l.payouts / 2, leases: l.leases / 2, marks: l.marks / 2, rungs: l.rungs / 2}
}

// kinds of stories, in the order in which the picker offers them.
const (
	kindGuilty  = "violation"
	kindTwice   = "money moved more than once"
	kindBehind  = "refused, for the lock store had gone back"
	kindBoth    = "stale writes refused at both fence points"
	kindRail    = "stale write refused at the rail"
	kindRow     = "stale write refused at the account row"
	kindUnknown = "outcome unknown"
	kindOpen    = "not finished"
	kindTaken   = "taken over"
	kindCalm    = "nothing went wrong"
)

var kindOrder = []string{kindGuilty, kindTwice, kindBehind, kindRail, kindRow, kindBoth, kindUnknown, kindOpen, kindTaken, kindCalm}

// quota is how many stories of a kind are told. Guilty payouts are told as far as the limit goes.
var quota = map[string]int{kindGuilty: 20, kindTwice: 6, kindBehind: 6, kindBoth: 3, kindRail: 6, kindRow: 6, kindUnknown: 3, kindOpen: 2, kindTaken: 2, kindCalm: 1}

func (d *digest) kind() string {
	switch {
	case d.guilty:
		return kindGuilty
	case d.moved > 1:
		return kindTwice
	case d.behind > 0 && d.behind == d.atRail+d.atRow:
		return kindBehind
	case d.atRail > 0 && d.atRow > 0:
		return kindBoth
	case d.atRail > 0:
		return kindRail
	case d.atRow > 0:
		return kindRow
	case d.unknownSeen || d.state == contract.RailAmbiguous:
		return kindUnknown
	case d.state != "" && !d.state.Terminal():
		return kindOpen
	case len(d.tokens) > 1:
		return kindTaken
	}
	return kindCalm
}

// choose picks the payouts whose stories are told, the best example of each kind first: one that came to its end, with
// few calls, so that it is read in a minute. lead, the headline's payout, comes before all others.
func (s *survey) choose(limit int, lead string) []*digest {
	byKind := map[string][]*digest{}
	for _, d := range s.payouts {
		if d.calls > 0 || d.guilty {
			byKind[d.kind()] = append(byKind[d.kind()], d)
		}
	}
	var out []*digest
	for _, k := range kindOrder {
		ds := byKind[k]
		sort.Slice(ds, func(a, b int) bool {
			if x, y := ds[a].id == lead, ds[b].id == lead; x != y {
				return x
			}
			return better(ds[a], ds[b])
		})
		for _, d := range ds[:min(len(ds), quota[k])] {
			if len(out) < limit {
				out = append(out, d)
			}
		}
	}
	return out
}

func better(a, b *digest) bool {
	if x, y := a.state == contract.Posted, b.state == contract.Posted; x != y {
		return x
	}
	if a.calls != b.calls {
		return a.calls < b.calls
	}
	if a.first != b.first {
		return a.first < b.first
	}
	return a.id < b.id
}

// indexed picks the payouts of the search index: the interesting ones first, then as many others as there is room for;
// in order of time.
func (s *survey) indexed(limit int) []*digest {
	all := make([]*digest, 0, len(s.payouts))
	for _, d := range s.payouts {
		all = append(all, d)
	}
	if len(all) > limit {
		sort.Slice(all, func(a, b int) bool {
			if x, y := all[a].interest(), all[b].interest(); x != y {
				return x > y
			}
			return all[a].id < all[b].id
		})
		all = all[:limit]
	}
	sort.Slice(all, func(a, b int) bool {
		if all[a].first != all[b].first {
			return all[a].first < all[b].first
		}
		return all[a].id < all[b].id
	})
	return all
}
