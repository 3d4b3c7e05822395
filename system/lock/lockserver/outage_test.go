package lockserver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"fenceproof/deploy/etcd/etcdtest"
	"fenceproof/deploy/postgres/postgrestest"
)

// endpoint is a request of the contract as it should be, by the name of its row.
type endpoint struct {
	name, method, path, body string
	head                     []string
}

// endpoints are L1 to L8, for a session and the grant of key "k" that it has.
func endpoints(session, token string) []endpoint {
	holder := []string{"X-Owner-Id: a", "X-Fencing-Token: " + token}
	own := fmt.Sprintf(`{"sessionId":%q}`, session)
	return []endpoint{
		{"L1", "POST", "/v1/sessions", `{"ownerId":"a","ttlMillis":15000}`, nil},
		{"L2", "POST", "/v1/sessions/" + session + "/heartbeat", "{}", nil},
		{"L3", "DELETE", "/v1/sessions/" + session, "{}", nil},
		{"L4", "POST", "/v1/locks/free/acquire", acquireBody(session, 30000, 0), holder[:1]},
		{"L4, waiting", "POST", "/v1/locks/k/acquire", acquireBody(session, 30000, 30000), holder[:1]},
		{"L5", "POST", "/v1/locks/k/renew", own, holder},
		{"L6", "DELETE", "/v1/locks/k", own, holder},
		{"L7", "GET", "/v1/locks/k", "", nil},
		{"L8", "POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"stuck for long"}`, nil},
	}
}

// Rule 7: nobody is told that a lock or a session is lost by a server that could not look.
func TestABackendThatDoesNotAnswerIsNotTheLeaderAndNothingIsLost(t *testing.T) {
	t.Run("pg", func(t *testing.T) {
		i := postgrestest.Start(t)
		isNotTheLeader(t, serve(t, lockdb(t, i), 100), i)
	})
	t.Run("etcd", func(t *testing.T) {
		m := etcdtest.Start(t)
		isNotTheLeader(t, newEtcdBackend(t, m).serve(t, 100), m)
	})
}

// stoppable is a backend's server.
type stoppable interface {
	Pause(context.Context) error
	Resume(context.Context) error
	Crash(context.Context) error
	Start(context.Context) error
}

func isNotTheLeader(t *testing.T, v *service, i stoppable) {
	session := v.session("a", 60000)
	token := v.acquire("k", "a", session, 60000, 0).want(200).field("fencingToken")
	unavailable := func(when string) {
		t.Helper()
		var all sync.WaitGroup
		for _, e := range endpoints(session, token) {
			all.Go(func() {
				r, err := v.send(context.Background(), e.method, e.path, e.body, e.head...)
				if err != nil || r.status != 503 || r.field("code") != "NOT_LEADER" || r.field("retrySafe") != "true" || r.field("retryAfterMillis") == "" {
					t.Errorf("%s, %s: got %d %s %v, want 503 NOT_LEADER", when, e.name, r.status, r.body, err)
				}
			})
		}
		all.Wait()
	}
	do := func(step func(context.Context) error) {
		t.Helper()
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	do(i.Pause)
	unavailable("stopped")
	do(i.Resume)
	do(i.Crash)
	unavailable("killed")
	do(i.Start)
	eventually(t, "the server answers again", func() bool { return v.do("GET", "/v1/locks/k", "").status == 200 })
}

// A TTL that the backend does not grant is a mistake of the request, and the answer says what would be none.
func TestATTLThatEtcdDoesNotGrantIsRefusedWithTheShortestNamed(t *testing.T) {
	b := emptiedEtcd(t)
	v := b.serve(t, 100)
	s := v.session("a", 2000)
	refused := func(r reply) {
		t.Helper()
		r.want(400, "INVALID_REQUEST", "ttlMillis", "2500", "a multiple of 1000, at least 1000", `"retrySafe":false`)
	}
	refused(v.do("POST", "/v1/sessions", `{"ownerId":"a","ttlMillis":2500}`))
	refused(v.acquire("k", "a", s, 2500, 0))
	refused(v.acquire("k", "a", s, 2500, 1000))
	if n := b.stored(t); n != 1 {
		t.Fatalf("%d sessions and grants are stored, want the one session", n)
	}
}

func TestAnotherMethodThanTheContractsIsRefusedAndDoesNothing(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		session := v.session("a", 60000)
		token := v.acquire("k", "a", session, 60000, 0).want(200).field("fencingToken")
		for _, e := range endpoints(session, token) {
			for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
				if allowed(e.path, method) {
					continue
				}
				v.do(method, e.path, e.body, e.head...).want(405, `"code":"METHOD_NOT_ALLOWED"`, `"retrySafe":false`, `"traceId"`)
			}
		}
		v.do("GET", "/v1/locks/k", "").want(200, `"fencingToken":`+token)
	})
}

// allowed tells which methods the contract has for a path.
func allowed(path, method string) bool {
	switch {
	case strings.HasSuffix(path, "sessions"), strings.HasSuffix(path, "heartbeat"), strings.HasSuffix(path, "acquire"),
		strings.HasSuffix(path, "renew"), strings.HasSuffix(path, "revoke"):
		return method == "POST"
	case strings.Contains(path, "sessions/"):
		return method == "DELETE"
	}
	return method == "GET" || method == "DELETE"
}

// A request that was sent cannot be called back: what an operator's lost connection has done is done, and told.
func TestARevokeIsFinishedAndToldAlthoughItsClientIsGone(t *testing.T) {
	v := start(t)
	v.acquire("k", "a", v.session("a", 60000), 60000, 0).want(200)
	row, end := v.lockRow("k")
	defer end()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = v.send(ctx, "POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"stuck for long"}`) // its answer is not waited for
	}()
	eventually(t, "the revoke waits for the row", func() bool {
		return query[bool](v, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')")
	})
	cancel()
	<-gone
	if err := row.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revoke is in the log", func() bool { return v.logged(`"event":"lock_revoked"`, `"operator":"olga"`) })
	v.do("GET", "/v1/locks/k", "").want(200, `"held":false`)
}

func TestAReaperThatCannotWorkSaysSoOnceAndWhenItCanAgain(t *testing.T) {
	v := serve(t, lockdb(t, server), 100)
	v.acquire("k", "a", v.session("a", 60000), 1000, 0).want(200)
	execute(v, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no deletes today'; END $$`)
	execute(v, `CREATE TRIGGER refuse BEFORE DELETE ON lock_entry FOR EACH ROW EXECUTE FUNCTION refuse()`)
	eventually(t, "the failure is in the log", func() bool { return v.logged(`"event":"reap_failed"`, "no deletes today") })
	execute(v, `DROP TRIGGER refuse ON lock_entry`)
	eventually(t, "the recovery is in the log", func() bool { return v.logged(`"event":"reap_resumed"`) })
	if n := v.count(`"event":"reap_failed"`); n != 1 {
		t.Errorf("the failure is told %d times", n)
	}
}
