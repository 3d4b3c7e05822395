package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockInMemory is a lock of one key as the contract wants it, without sessions that end. It notes what was asked of it.
type lockInMemory struct {
	t        *testing.T
	mu       sync.Mutex
	token    int64
	owner    string // "" while nobody holds it
	holder   int64
	grants   int
	reenters int
	stale    int // releases of what was not held any more
	renewals int
	closed   int
	enough   func(*lockInMemory) bool
	done     context.CancelFunc
}

func (l *lockInMemory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.ContentLength <= 0 {
		l.t.Errorf("%s %s has no body", r.Method, r.URL.Path)
	}
	owner := r.Header.Get("X-Owner-Id")
	var token int64
	if h := r.Header.Get("X-Fencing-Token"); h != "" {
		_ = json.Unmarshal([]byte(h), &token)
	}
	verb := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Method == http.MethodPost && verb == "sessions":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"sessionId":"of %s"}`, owner)
	case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/v1/sessions/"):
		l.closed++
		w.WriteHeader(http.StatusNoContent)
	case verb == "acquire" && (l.owner == "" || l.owner == owner):
		if l.owner == owner {
			l.reenters++
		}
		l.token++
		l.grants++
		l.owner, l.holder = owner, l.token
		fmt.Fprintf(w, `{"fencingToken":%d}`, l.token)
	case verb == "renew" && token == l.holder:
		l.renewals++
		fmt.Fprintf(w, `{"fencingToken":%d}`, token)
	case r.Method == http.MethodDelete && token == l.holder:
		l.owner, l.holder = "", 0
		w.WriteHeader(http.StatusNoContent)
	default:
		if r.Method == http.MethodDelete {
			l.stale++
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"code":"LOCK_LOST"}`)
	}
	if l.enough(l) {
		l.done()
	}
}

func hammer(t *testing.T, l *lockInMemory, clients int) error {
	t.Helper()
	s := httptest.NewServer(l)
	defer s.Close()
	h := &Hammer{Seed: 1, Key: "a key/with a slash"}
	for range clients {
		h.Servers = append(h.Servers, strings.TrimPrefix(s.URL, "http://"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.t, l.done = t, cancel
	err := h.Run(ctx)
	if err == nil && h.Granted() != int64(l.grants) {
		t.Errorf("it counts %d grants of %d", h.Granted(), l.grants)
	}
	return err
}

func TestLockClientsEnterAgainRenewAndComeLate(t *testing.T) {
	l := &lockInMemory{enough: func(l *lockInMemory) bool { return l.reenters > 2 && l.renewals > 2 && l.stale > 2 }}
	if err := hammer(t, l, 4); err != nil {
		t.Fatal(err)
	}
	if l.grants < l.reenters+l.renewals || l.closed != 4 {
		t.Errorf("%d grants, %d entered again, %d renewed; %d sessions closed", l.grants, l.reenters, l.renewals, l.closed)
	}
	if l.owner != "" {
		t.Errorf("%s still holds the key", l.owner)
	}
}

func TestLockClientsThatNobodyGrantsAnythingAreAnError(t *testing.T) {
	l := &lockInMemory{owner: "somebody else", enough: func(*lockInMemory) bool { return true }}
	if err := hammer(t, l, 2); err == nil || !strings.Contains(err.Error(), "none of 2 lock clients was ever granted") {
		t.Errorf("got %v", err)
	}
}
