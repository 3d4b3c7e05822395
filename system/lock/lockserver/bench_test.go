package lockserver_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"fenceproof/system/wire"
)

// BenchmarkOwnKeysOverHTTP is acquire and release in pairs by 16 clients that do not get into each other's way. The same
// on the store directly is pgstore's BenchmarkOwnKeys.
func BenchmarkOwnKeysOverHTTP(b *testing.B) {
	v := start(b)
	session := v.session("a", 60000)
	c := wire.NewClient(v.url, 16)
	defer c.Close()
	b.ResetTimer()
	var done atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		path := fmt.Sprint("/v1/locks/k", i)
		wg.Go(func() {
			for done.Add(1) <= int64(b.N) {
				var g struct {
					FencingToken int64 `json:"fencingToken"`
				}
				err := c.Do(b.Context(), wire.Call{Method: "POST", Path: path + "/acquire", Owner: "a",
					Body: map[string]any{"sessionId": session, "ttlMillis": 60000}}, &g)
				if err == nil {
					err = c.Do(b.Context(), wire.Call{Method: "DELETE", Path: path, Owner: "a", Token: g.FencingToken,
						Body: map[string]any{"sessionId": session}}, nil)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
