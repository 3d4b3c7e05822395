package lockserver_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/deploy/postgres/postgrestest"
)

// The comparison of BenchmarkPairs: each client has a session of its own, in alternating rounds. A round may be a third off, so
// what has a bar, 16 clients, takes more of them, shorter ones: all are over before the sessions are.
const (
	pairRounds, pairRound     = 3, time.Second
	judgedRounds, judgedRound = 9, time.Second / 2
	judged                    = 16
	pairTTL                   = time.Minute // the longest there is
)

// pairing tries one acquire and, where it was granted, calls granted and releases. It is false when the key was held.
type pairing func(ctx context.Context, client int, key string, granted func()) (bool, error)

// side is one of those that are compared.
type side struct {
	name string
	pair pairing

	rates []float64       // pairs per second, by round
	waits []time.Duration // from the first try of an acquire to its grant, of all rounds
}

// BenchmarkPairs compares acquire + release over HTTP, through the real lock-server process, with the same on the store
// that it uses, on both backends; with C1's bare statements with and without the advisory lock; and with what else one
// would take: pg_advisory_lock, and etcd's concurrency.Mutex. The sides take turns, another one first in each round, and the
// medians of the rounds are reported; an op is the whole comparison.
func BenchmarkPairs(b *testing.B) {
	for _, clients := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("own_keys_%d", clients), func(b *testing.B) {
			compare(b, clients, func(client int) string { return fmt.Sprint("key-", client) }, false)
		})
		if clients > 1 {
			b.Run(fmt.Sprintf("hot_key_%d", clients), func(b *testing.B) {
				compare(b, clients, func(int) string { return "hot" }, true)
			})
		}
	}
}

func compare(b *testing.B, clients int, key func(client int) string, hot bool) {
	// What waits for the disk in production waits for it here.
	database, member := lockdb(b, postgrestest.StartDurable(b)), etcdtest.StartDurable(b)
	onPG, onEtcd := startProcess(b, "LOCK_DATASOURCE_URL="+database), startProcess(b, "LOCK_BACKEND=etcd", "ETCD_ENDPOINTS="+member.URL())
	sides := []*side{
		{name: "pg-http", pair: overHTTP(b, onPG, clients, 0)},
		{name: "pg-store", pair: onStore(b, openPG(b, database), clients)},
		{name: "c1+advisory", pair: withC1(b, database, clients, true)},
		{name: "c1", pair: withC1(b, database, clients, false)},
		{name: "pg_advisory_lock", pair: withAdvisoryLock(b, database, clients)},
		{name: "etcd-http", pair: overHTTP(b, onEtcd, clients, 0)},
		{name: "etcd-store", pair: onStore(b, openEtcd(b, member), clients)},
		{name: "etcd-mutex", pair: withMutex(b, member, clients)},
	}
	if hot {
		sides = append(sides, &side{name: "pg-http-waiting", pair: overHTTP(b, onPG, clients, longestWait)},
			&side{name: "etcd-http-waiting", pair: overHTTP(b, onEtcd, clients, longestWait)})
	}
	rounds, long := pairRounds, pairRound
	if clients == judged {
		rounds, long = judgedRounds, judgedRound
	}
	for b.Loop() {
		for n := range rounds {
			for at := range sides {
				sides[(n+at)%len(sides)].round(b, clients, key, long)
			}
		}
	}
	for _, s := range sides {
		s.report(b)
	}
}

// round lets all clients have their key again and again, for so long.
func (s *side) round(b *testing.B, clients int, key func(int) string, long time.Duration) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	waits := make([][]time.Duration, clients)
	var all sync.WaitGroup
	begin := time.Now()
	for client := range clients {
		all.Go(func() {
			for time.Since(begin) < long {
				asked := time.Now()
				for granted := false; !granted && time.Since(begin) < long; {
					var err error
					granted, err = s.pair(ctx, client, key(client), func() { waits[client] = append(waits[client], time.Since(asked)) })
					if err != nil {
						b.Errorf("%s: %v", s.name, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	waited := slices.Concat(waits...)
	s.rates = append(s.rates, float64(len(waited))/time.Since(begin).Seconds())
	s.waits = append(s.waits, waited...)
}

// report reports the rate and the times to a grant, in microseconds.
func (s *side) report(b *testing.B) {
	if b.Failed() || len(s.waits) == 0 {
		b.Fatalf("%s: no pair was completed", s.name)
	}
	slices.Sort(s.rates)
	slices.Sort(s.waits)
	b.ReportMetric(s.rates[len(s.rates)/2], s.name+":pairs/s")
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}} {
		b.ReportMetric(float64(s.waits[int(float64(len(s.waits)-1)*q.at)].Microseconds()), s.name+":"+q.name+"-us")
	}
}

func owner(client int) string { return fmt.Sprint("client-", client) }
