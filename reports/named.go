package reports

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fenceproof/checker/history"
)

// aimedAt lists the payouts that the windows were aimed at, each once: a window names a payout, or a grant, under which its
// holder claimed some.
func aimedAt(windows []history.Event, claimed func(key string, token int64) []string) (hit []string) {
	for i := range windows {
		e := &windows[i]
		ids := []string{e.Payout}
		if e.Payout == "" {
			ids = claimed(e.Key, e.Token)
		}
		for _, id := range ids {
			if !slices.Contains(hit, id) {
				hit = append(hit, id)
			}
		}
	}
	return hit
}

// named lists the whole ids of the payouts that are asked for; without any, of those that fault windows were aimed at,
// each once, in order, or of the one whose story a report tells first.
func named(historyDir string, wanted []string) ([]string, error) {
	type grant struct{ key, token string }
	var known []string
	seen, claimed := map[string]bool{}, map[grant][]string{}
	var windows []history.Event
	s := newSurvey(nil)
	err := each(historyDir, func(e *history.Event) {
		s.observe(e)
		if e.W == history.Nemesis && e.Phase == "inject" {
			windows = append(windows, *e)
		}
		for _, c := range e.Changes {
			if id := c.New["payout_id"]; c.Table == "payout" {
				if !seen[id] {
					seen[id] = true
					known = append(known, id)
				}
				under := grant{keyPrefix + c.New["account_id"], c.New["claim_token"]}
				if under.token != "" && !slices.Contains(claimed[under], id) {
					claimed[under] = append(claimed[under], id)
				}
			}
		}
	})
	hit := aimedAt(windows, func(key string, token int64) []string { return claimed[grant{key, strconv.FormatInt(token, 10)}] })
	switch {
	case err != nil:
		return nil, err
	case len(known) == 0:
		return nil, fmt.Errorf("%w: there was none in this run", ErrWhichPayout)
	case len(wanted) == 0 && len(hit) > 0:
		return hit, nil
	case len(wanted) == 0:
		best := s.choose(1, "")
		if len(best) == 0 {
			return nil, fmt.Errorf("%w: nobody worked on any in this run; name one", ErrWhichPayout)
		}
		return []string{best[0].id}, nil
	}
	var out []string
	for _, w := range wanted {
		var fits []string
		for _, id := range known {
			if strings.HasPrefix(id, w) {
				fits = append(fits, id)
			}
		}
		switch {
		case len(fits) == 0:
			return nil, fmt.Errorf("%w: none of this run begins with %s", ErrWhichPayout, w)
		case len(fits) > 1:
			return nil, fmt.Errorf("%w: %d of this run begin with %s, such as %s and %s; give more of the id", ErrWhichPayout, len(fits), w, fits[0], fits[1])
		}
		out = append(out, fits[0])
	}
	return out, nil
}
