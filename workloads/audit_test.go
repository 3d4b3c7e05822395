package workloads

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestAnAuditorReadsAPayoutOfTheListAndItsAccountAndWritesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.Path)
		switch {
		case len(asked) == 1:
			w.WriteHeader(503) // once: then it asks again
		case r.URL.Path == "/v1/payouts":
			fmt.Fprint(w, `{"items":[{"payoutId":"p-1","accountId":"a-1"}]}`)
		case r.URL.Path == "/v1/accounts/a-1":
			cancel()
		}
	}))
	a, err := ParseAudit(fmt.Appendf(nil, `{"owner":"auditor","server":%q,"seed":"7","rate":1000}`, strings.TrimPrefix(s.URL, "http://")))
	if err != nil {
		t.Fatal(err)
	}
	a.Run(ctx)
	s.Close()
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(asked, ", "); got != "GET /v1/payouts, GET /v1/payouts, GET /v1/payouts/p-1, GET /v1/accounts/a-1" {
		t.Errorf("it asked %s", got)
	}
	goleak.VerifyNone(t)
}

func TestAnAuditorRefusesWhatNobodyCanDo(t *testing.T) {
	for _, text := range []string{``, `{}`, `{"owner":"a","server":"s","rate":0}`, `{"owner":"a","server":"s","rate":1,"speed":2}`, `{"owner":"a","server":"s","rate":1} x`, `{"server":"s","rate":1}`} {
		if _, err := ParseAudit([]byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}
