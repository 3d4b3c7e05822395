package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fenceproof/checker/run"
)

// The load: enough executors and accounts that the machine, and not a lock, is what limits it.
const (
	loadExecutors = 6
	loadAccounts  = 64
	loadWarm      = 3 * time.Second
	maxLoadRounds = 3
)

func measureLoad(ctx context.Context, o options) (section, error) {
	degrees := []run.Watched{run.WatchedByAll, run.WatchedNotOnWire, run.WatchedByNobody}
	rates := map[run.Watched][]float64{}
	var p50, p99, most []float64
	var events, lagged int64
	rounds := min(o.rounds, maxLoadRounds)
	for n := range rounds {
		order := slices.Clone(degrees)
		if n%2 == 1 {
			slices.Reverse(order) // a machine that slows down with time slows both alike
		}
		for _, w := range order {
			got, err := run.MeasureLoad(ctx, run.Load{Bin: o.bin, Runs: filepath.Join(o.work, "runs"), Watched: w, Executors: loadExecutors, Accounts: loadAccounts,
				Open: o.open, Warm: loadWarm, Measure: o.measure, Seed: uint64(n + 1), Progress: func(string) {}})
			if err != nil {
				return section{}, fmt.Errorf("%s: %w", w, err)
			}
			if got.Found > 0 {
				return section{}, fmt.Errorf("%s: the judge found %d violations in a run with nothing broken", w, got.Found)
			}
			fmt.Fprintf(os.Stderr, "load: round %d of %d, %s: %.0f payouts/s\n", n+1, rounds, w, got.PerSecond)
			rates[w] = append(rates[w], got.PerSecond)
			if w == run.WatchedByAll {
				p50 = append(p50, float64(got.Lag.Median.Microseconds())/1000)
				p99, most = append(p99, float64(got.Lag.P99.Microseconds())/1000), append(most, float64(got.Lag.Max.Microseconds())/1000)
				events, lagged = events+got.Events, lagged+got.Lag.Events
			}
		}
	}
	all, wireless, none := median(rates[run.WatchedByAll]), median(rates[run.WatchedNotOnWire]), median(rates[run.WatchedByNobody])
	worst := slices.Max(most)
	return section{
		title: "The whole system under load, watched and unwatched",
		intro: fmt.Sprintf("The real stack: two PostgreSQL servers, all services, %d executors; every hop is a link in all cases. Closed loop: %d payouts kept open on %d accounts. The rail answers at once, executors look for work every 50 ms, all else is the services' default. %s after %s of warming up; medians of %d rounds, whose order alternates. The live judge runs in the first case, over %s events in all.",
			loadExecutors, o.open, loadAccounts, o.measure, loadWarm, rounds, thousands(events)),
		rows: [][]string{
			{"payouts/s, all witnesses and the live judge", fmt.Sprintf("%.0f", all), "", ""},
			{"payouts/s, all but the wiretap", fmt.Sprintf("%.0f", wireless), "", ""},
			{"payouts/s, no witness", fmt.Sprintf("%.0f", none), "", ""},
			{"all witnesses ÷ without the wiretap", fmt.Sprintf("%.2f", all/wireless), "≥ 0.7", met(all/wireless >= 0.7)},
			{"all witnesses ÷ no witness", fmt.Sprintf("%.2f", all/none), "", ""},
			{"live verdict behind the events, median", fmt.Sprintf("%.1f ms", median(p50)), "", ""},
			{"live verdict behind the events, 99th percentile of " + thousands(lagged), fmt.Sprintf("%.1f ms", median(p99)), "", ""},
			{"live verdict behind the events, at most", fmt.Sprintf("%.0f ms", worst), "< 1 s", met(worst < 1000)},
		},
	}, nil
}
