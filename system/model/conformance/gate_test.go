package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"fenceproof/system/model"
	"fenceproof/system/rail/stub"
)

// gate stands between rail-proxy and the rail. It keeps every call until the schedule decides its fate, and then lets
// the real rail see it or not, and the proxy hear the answer or not.
type gate struct {
	url           string
	rail, decline string        // a rail that accepts, and one that declines everything
	moved         *stub.Journal // of the first; the second's stays empty
	http          *http.Client

	mu      sync.Mutex
	waiting map[string]chan *call // by client reference: who waits for a call of a payout
}

// call is one call to the rail on its way.
type call struct {
	fate chan model.Fate // takes one; closed without one: the call ends like one that never arrived
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}, waiting: map[string]chan *call{}}
	g.rail, g.moved = newRail(t, stub.Options{})
	var none *stub.Journal
	g.decline, none = newRail(t, stub.Options{FailureRate: 1})
	server := httptest.NewServer(http.HandlerFunc(g.serve))
	g.url = server.URL
	t.Cleanup(func() {
		server.Close()
		g.http.CloseIdleConnections()
		g.mu.Lock()
		defer g.mu.Unlock()
		for ref := range g.waiting {
			if n := len(none.Find(ref, 0)); n > 0 {
				t.Errorf("the rail that declines moved money %d times", n)
			}
		}
	})
	return g
}

func newRail(t testing.TB, o stub.Options) (string, *stub.Journal) {
	t.Helper()
	j, err := stub.OpenJournal(journalIn(t))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(stub.New(o, j, quiet).Handler())
	t.Cleanup(func() {
		server.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL, j
}

// expect is where the calls for a payout will be seen.
func (g *gate) expect(payoutID string) <-chan *call {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := make(chan *call, model.MaxLate+model.MaxExecutors)
	g.waiting[payoutID] = c
	return c
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in struct {
		ClientRef string `json:"clientRef"`
	}
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	g.mu.Lock()
	waiting := g.waiting[in.ClientRef]
	g.mu.Unlock()
	if err != nil || waiting == nil {
		http.Error(w, fmt.Sprintf("nobody expects %q: %v", body, err), http.StatusTeapot)
		return
	}
	c := &call{fate: make(chan model.Fate, 1)}
	waiting <- c
	fate, decided := <-c.fate
	if !decided || fate == model.NeverArrived {
		panic(http.ErrAbortHandler)
	}
	status, answer, err := g.pass(r.Context(), fate, body)
	if err != nil || fate == model.ReplyLost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the proxy is gone: nobody hears it
}

// pass lets the real rail see the call.
func (g *gate) pass(ctx context.Context, fate model.Fate, body []byte) (int, []byte, error) {
	to := g.rail
	if fate == model.Declined {
		to = g.decline
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to+"/submit", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.GetBody = nil // the rail is not idempotent
	res, err := g.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}
