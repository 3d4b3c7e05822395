package wiretap

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/history"
)

// BenchmarkClaim compares a claim over the relay, recorded, with the same one directly.
func BenchmarkClaim(b *testing.B) {
	rec, err := history.Create(filepath.Join(b.TempDir(), "h"), history.Header{RunID: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	relay, _, s := rig(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"payoutId":"p-1","accountId":"a-1","state":"CLAIMED","claimToken":41,"accountFence":40,"attemptCount":1}`)
	})
	_ = relay.Close()
	relay = relayTo(b, s.Listener.Addr().String(), rec)
	defer func() {
		if err := rec.Close(); err != nil {
			b.Fatal(err)
		}
	}()
	defer func() { _ = relay.Close() }()
	for _, c := range []struct{ name, addr string }{{"direct", s.Listener.Addr().String()}, {"relay", relay.Addr()}} {
		b.Run(c.name, func(b *testing.B) {
			transport := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{}).DialContext}
			defer transport.CloseIdleConnections()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, _ := http.NewRequest("POST", "http://"+c.addr+claimPath, strings.NewReader(claimBody))
					req.Header.Set("X-Fencing-Token", "41")
					req.Header.Set("X-Owner-Id", "executor-2")
					res, err := transport.RoundTrip(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
	}
}
