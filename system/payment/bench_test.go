package payment_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
)

// BenchmarkPayout takes payouts from PENDING to POSTED over HTTP, each on an account of its own: four commands and
// their fsyncs per operation.
func BenchmarkPayout(b *testing.B) {
	bench := newBenchOn(b, paydbURL, true)
	var next atomic.Int64
	ids := make([]string, b.N)
	for i := range ids {
		acct, p := uuid.NewString(), uuid.NewString()
		bench.exec(`INSERT INTO account (account_id, currency, balance_minor) VALUES ($1, 'EUR', 1000)`, acct)
		bench.exec(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES ($1, $2, 250, 'EUR', $3)`, p, acct, "payout-"+p)
		ids[i] = p
	}
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p := ids[next.Add(1)-1]
			for _, r := range []request{claim(p, 41, "PENDING"), submitted(p, 41), outcome(p, 41, acked), post(p, 41)} {
				a, err := exchange(bench.url, "POST", "/v1/payouts/"+p+"/"+r.verb, headers(r), r.body)
				if err != nil || a.status != 200 {
					panic(fmt.Sprint(err, a.raw))
				}
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "payouts/s")
}
