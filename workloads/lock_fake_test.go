package workloads

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockInMemory is a lock as the contract wants it. It notes what was asked of it.
type lockInMemory struct {
	t        *testing.T
	mu       sync.Mutex
	last     int64 // the last token, or the number of the last session
	sessions map[string]time.Time
	ttls     map[string]time.Duration
	held     map[string]heldKey
	n        lockTally
}

type heldKey struct {
	session string
	token   int64
	until   time.Time
}

// lockTally counts what was asked and what came of it.
type lockTally struct {
	grants, reenters, contended, renewals, lateRenewals, releases, lateReleases int
	closed, closedHolding, died, revoked, revokedOther                          int
}

func newLockInMemory(t *testing.T) (*lockInMemory, string) {
	l := &lockInMemory{t: t, sessions: map[string]time.Time{}, ttls: map[string]time.Duration{}, held: map[string]heldKey{}}
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	return l, strings.TrimPrefix(s.URL, "http://")
}

func (l *lockInMemory) tally() lockTally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// await waits until cond holds once everything that is due has expired.
func (l *lockInMemory) await(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		l.reap()
		done := cond()
		l.mu.Unlock()
		switch {
		case done:
			return
		case time.Now().After(deadline):
			t.Fatalf("still held: %v, in the sessions %v", l.held, l.sessions)
		}
	}
}

// lockRequest is what requests say.
type lockRequest struct {
	OwnerID, SessionID, Operator, Reason string
	TTLMillis, WaitMillis, ExpectedToken int64
}

func (l *lockInMemory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var in lockRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil && r.Method != http.MethodGet {
		l.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	l.reap()
	key := strings.TrimPrefix(r.URL.Path, "/v1/locks/")
	token, _ := strconv.ParseInt(r.Header.Get("X-Fencing-Token"), 10, 64)
	verb := ""
	for _, v := range []string{"/acquire", "/renew", "/revoke"} {
		if k, ok := strings.CutSuffix(key, v); ok {
			key, verb = k, v
		}
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/sessions"):
		l.session(w, r, in)
	case verb == "/acquire":
		l.acquire(w, key, in)
	case verb == "/revoke":
		l.revoke(w, key, in)
	case r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"held":%v,"fencingToken":%d}`, l.held[key].token > 0, l.held[key].token)
	default:
		l.use(w, verb == "/renew", key, token)
	}
}

// reap ends what has expired.
func (l *lockInMemory) reap() {
	for id, until := range l.sessions {
		if time.Now().After(until) {
			l.n.died++
			l.end(id)
		}
	}
	for key, h := range l.held {
		if time.Now().After(h.until) {
			delete(l.held, key)
		}
	}
}

func (l *lockInMemory) end(session string) (holding bool) {
	delete(l.sessions, session)
	for key, h := range l.held {
		if h.session == session {
			holding = true
			delete(l.held, key)
		}
	}
	return holding
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"code":%q}`, code)
}

func (l *lockInMemory) session(w http.ResponseWriter, r *http.Request, in lockRequest) {
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/sessions/"), "/heartbeat")
	_, alive := l.sessions[id]
	switch {
	case r.URL.Path == "/v1/sessions":
		l.last++
		id = fmt.Sprintf("session-%d", l.last)
		l.ttls[id] = time.Duration(in.TTLMillis) * time.Millisecond
		l.sessions[id] = time.Now().Add(l.ttls[id])
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"sessionId":%q}`, id)
	case !alive:
		refuse(w, http.StatusGone, "SESSION_EXPIRED")
	case r.Method == http.MethodDelete:
		l.n.closed++
		if l.end(id) {
			l.n.closedHolding++
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		l.sessions[id] = time.Now().Add(l.ttls[id])
		fmt.Fprint(w, `{}`)
	}
}

func (l *lockInMemory) acquire(w http.ResponseWriter, key string, in lockRequest) {
	h, held := l.held[key]
	if _, alive := l.sessions[in.SessionID]; !alive {
		refuse(w, http.StatusGone, "SESSION_EXPIRED")
		return
	}
	if held && h.session != in.SessionID {
		l.n.contended++
		refuse(w, http.StatusConflict, "LOCK_CONTENDED")
		return
	}
	if held {
		l.n.reenters++
	}
	l.n.grants++
	l.last++
	l.held[key] = heldKey{in.SessionID, l.last, time.Now().Add(time.Duration(in.TTLMillis) * time.Millisecond)}
	fmt.Fprintf(w, `{"fencingToken":%d}`, l.last)
}

func (l *lockInMemory) use(w http.ResponseWriter, renew bool, key string, token int64) {
	h := l.held[key]
	count := map[bool]*int{true: &l.n.renewals, false: &l.n.releases}[renew]
	if h.token != token {
		count = map[bool]*int{true: &l.n.lateRenewals, false: &l.n.lateReleases}[renew]
		*count++
		refuse(w, http.StatusConflict, "LOCK_LOST")
		return
	}
	*count++
	if renew {
		fmt.Fprintf(w, `{"fencingToken":%d}`, token)
		return
	}
	delete(l.held, key)
	w.WriteHeader(http.StatusNoContent)
}

func (l *lockInMemory) revoke(w http.ResponseWriter, key string, in lockRequest) {
	h, held := l.held[key]
	switch {
	case in.Operator == "" || len(in.Reason) < 8:
		l.t.Errorf("revoke by %q because of %q", in.Operator, in.Reason)
	case !held:
		refuse(w, http.StatusNotFound, "NOT_FOUND")
		return
	case in.ExpectedToken != 0 && in.ExpectedToken != h.token:
		l.n.revokedOther++
		refuse(w, http.StatusConflict, "FENCED_OUT")
		return
	}
	l.n.revoked++
	delete(l.held, key)
	fmt.Fprint(w, `{}`)
}
