package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/system/lock/lockserver"
	"fenceproof/system/lock/pgstore"
	"fenceproof/system/payment"
	"fenceproof/system/rail/proxy"
	"fenceproof/system/rail/stub"
	"fenceproof/system/service"
	"fenceproof/system/wire"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	id      = "5f0c2f0e-6d5b-4c5e-9d0b-3a1f6f3f9c11"
	headers = "\r\nHost: x\r\nX-Owner-Id: executor-1\r\nX-Fencing-Token: 41\r\nX-Idempotency-Key: payout-1"
)

var discard = slog.New(slog.DiscardHandler)

// nowhere is the address of a database that is not there: what gets past the decoder finds nobody, at once.
func nowhere(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprintf("postgres://nobody@%s/none?sslmode=disable&connect_timeout=1", l.Addr())
}

// request makes a request of its head, the way a server reads it, and its body.
func request(head, body []byte) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("\r\n\r\n"))))
	if err != nil {
		return nil // no server passes it on
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

// judge sends a request to h and looks at the answer.
func judge(t *testing.T, h http.Handler, head, body []byte) {
	r := request(head, body)
	if r == nil {
		t.Skip()
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	switch {
	case w.Code < 400:
		return
	case w.Code >= 500 && w.Code != http.StatusServiceUnavailable:
		t.Fatalf("%q with %q is answered %d: %s", head, body, w.Code, w.Body)
	case r.Method == http.MethodHead:
		return
	}
	var e wire.Error
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Code == "" || e.Message == "" || e.TraceID == "" {
		t.Fatalf("%q with %q is answered %d with no envelope (%v): %s", head, body, w.Code, err, w.Body)
	}
	if w.Body.Len() > 4<<10 {
		t.Fatalf("a refusal has %d bytes: %.200s", w.Body.Len(), w.Body)
	}
}

// seeds are requests of the contract, each as it should be: it gets past the decoder, to a database that is not there or a rail
// that declines.
func seeds(f *testing.F, h http.Handler, all map[string][]string) {
	for _, line := range slices.Sorted(maps.Keys(all)) {
		for _, body := range all[line] {
			head := line + " HTTP/1.1" + headers
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request([]byte(head), []byte(body)))
			if w.Code != http.StatusServiceUnavailable && w.Code != http.StatusPaymentRequired && w.Code != http.StatusOK {
				f.Fatalf("%s with %s is answered %d: %s", line, body, w.Code, w.Body)
			}
			f.Add([]byte(head), []byte(body))
		}
	}
}

func FuzzLockServer(f *testing.F) {
	store, err := pgstore.Open(nowhere(f), discard)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(store.Close)
	s := lockserver.New(lockserver.Options{Store: store, Backend: "pg", DefaultTTL: time.Second, SessionTTL: time.Second, MaxWaiters: 10,
		Log: discard, Registerer: prometheus.NewRegistry()})
	h := s.Handler()
	seeds(f, h, map[string][]string{
		"POST /v1/sessions":                      {`{"ownerId":"executor-1","ttlMillis":1000}`},
		"POST /v1/sessions/" + id + "/heartbeat": {`{}`},
		"DELETE /v1/sessions/" + id:              {`{}`},
		"POST /v1/locks/payout%3A7/acquire":      {`{"sessionId":"` + id + `","ttlMillis":1000,"waitMillis":0}`, `{"sessionId":"` + id + `","waitMillis":1000}`},
		"POST /v1/locks/k/renew":                 {`{"sessionId":"` + id + `","ttlMillis":1000}`},
		"DELETE /v1/locks/k":                     {`{"sessionId":"` + id + `"}`},
		"GET /v1/locks/a%2Fb":                    {``},
		"POST /v1/locks/k/revoke":                {`{"operator":"ann","reason":"it is stuck since noon","expectedToken":41}`},
	})
	f.Fuzz(func(t *testing.T, head, body []byte) { judge(t, h, head, body) })
}

func FuzzPaymentResource(f *testing.F) {
	store, err := payment.OpenStore(f.Context(), nowhere(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(store.Close)
	api := payment.NewAPI(store, service.NewFencing(true, discard), discard, prometheus.NewRegistry())
	h := api.Handler()
	seeds(f, h, map[string][]string{
		"GET /v1/payouts?state=PENDING&limit=50": {``},
		"GET /v1/payouts/" + id:                  {``},
		"GET /v1/accounts/" + id:                 {``},
		"POST /v1/payouts/" + id + "/claim":      {`{"expectedState":"PENDING"}`},
		"POST /v1/payouts/" + id + "/submitted":  {`{}`},
		"POST /v1/payouts/" + id + "/outcome":    {`{"outcome":"ACKED","submissionId":"` + id + `","railReference":"rail-1"}`, `{"outcome":"TIMEOUT","reason":"nobody answered"}`},
		"POST /v1/payouts/" + id + "/post":       {`{"railReference":"rail-1","submissionId":"` + id + `","railOutcome":"ACKED"}`},
		"POST /v1/payouts/" + id + "/resolve":    {`{"resolution":"ABSENT","lookedUpAt":"2026-01-02T03:04:05Z"}`, `{"resolution":"ABANDONED","operator":"ann","reason":"given up by hand"}`},
	})
	f.Fuzz(func(t *testing.T, head, body []byte) { judge(t, h, head, body) })
}

func FuzzRailProxy(f *testing.F) {
	store, err := proxy.OpenStore(f.Context(), nowhere(f), time.Second)
	if err != nil {
		f.Fatal(err)
	}
	p := proxy.New(proxy.Options{Store: store, RailURL: "http://127.0.0.1:1", Timeout: time.Second, Fencing: service.NewFencing(true, discard),
		Log: discard, Registerer: prometheus.NewRegistry()})
	f.Cleanup(p.Close)
	h := p.Handler()
	seeds(f, h, map[string][]string{"POST /v1/rail/submissions": {
		`{"payoutId":"` + id + `","accountId":"` + id + `","amountMinor":4200,"currency":"EUR","beneficiaryRef":"b-1"}`,
	}})
	f.Fuzz(func(t *testing.T, head, body []byte) { judge(t, h, head, body) })
}

func FuzzRailStub(f *testing.F) {
	journal, err := stub.OpenJournal(filepath.Join(f.TempDir(), "journal.ndjson"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = journal.Close() })
	h := stub.New(stub.Options{FailureRate: 1}, journal, discard).Handler()
	seeds(f, h, map[string][]string{
		"POST /submit":                   {`{"clientRef":"` + id + `","amountMinor":4200,"currency":"EUR"}`},
		"GET /transfers?clientRef=" + id: {``},
	})
	f.Fuzz(func(t *testing.T, head, body []byte) { judge(t, h, head, body) })
}
