package lockserver_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"fenceproof/system/lock/lockserver"

	"github.com/go-chi/chi/v5"
)

// private serves what the private listener has besides.
func private(t *testing.T, s *lockserver.Server) func(path string) reply {
	r := chi.NewRouter()
	s.Routes(r)
	return func(path string) reply {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return reply{t, w.Code, w.Body.String()}
	}
}

// listed is an answer of either list.
type listed struct {
	Locks     []map[string]json.RawMessage `json:"locks"`
	Sessions  []map[string]json.RawMessage `json:"sessions"`
	NextAfter string                       `json:"nextAfter"`
}

func read(r reply) (l listed) {
	r.t.Helper()
	r.want(200)
	if err := json.Unmarshal([]byte(r.body), &l); err != nil {
		r.t.Fatal(err)
	}
	return l
}

func texts(rows []map[string]json.RawMessage, name string) (all []string) {
	for _, row := range rows {
		all = append(all, strings.Trim(string(row[name]), `"`))
	}
	return all
}

func TestAnOperatorSeesEveryLiveGrantPageByPageAndNoExpiredOne(t *testing.T) {
	v := start(t)
	get := private(t, v.server)
	a, b := v.session("a", 60_000), v.session("b", 60_000)
	execute(v, "ALTER SEQUENCE fencing_token_seq RESTART WITH 9007199254740993")
	for _, key := range []string{"p:3", "p:1", "q/1", "p:2"} {
		v.acquire(url.PathEscape(key), "a", a, 60_000, 0).want(200)
	}
	v.acquire("p:9", "b", b, 60_000, 0).want(200)
	v.acquire("p:0", "b", b, 60_000, 0).want(200)
	execute(v, "UPDATE lock_entry SET acquired_at = now() - interval '2 s', expires_at = now() - interval '1 ms' WHERE lock_key = 'p:0'")

	var keys []string
	for after, pages := "", 0; pages < 10; pages++ {
		l := read(get("/locks?limit=2&after=" + url.QueryEscape(after)))
		keys = append(keys, texts(l.Locks, "key")...)
		if after = l.NextAfter; after == "" {
			break
		}
	}
	if got := strings.Join(keys, " "); got != "p:1 p:2 p:3 p:9 q/1" {
		t.Errorf("listed %s", got)
	}
	mine := read(get("/locks?owner=a&prefix=" + url.QueryEscape("p:")))
	if got := strings.Join(texts(mine.Locks, "key"), " "); got != "p:1 p:2 p:3" {
		t.Errorf("of a's that begin with p: listed %s", got)
	}
	if got := texts(mine.Locks, "fencingToken"); got[2] != "9007199254740993" || got[0] != "9007199254740994" {
		t.Errorf("the tokens are %v", got)
	}
	if got := texts(mine.Locks, "sessionId"); got[0] != a {
		t.Errorf("the sessions are %v, want %s", got, a)
	}
}

func TestAnOperatorSeesEveryLiveSessionAndHowMuchItHolds(t *testing.T) {
	v := start(t)
	get := private(t, v.server)
	held := map[string]string{}
	for n := range 3 {
		id := v.session(fmt.Sprint("owner-", n), 60_000)
		held[id] = fmt.Sprint(n)
		for k := range n {
			v.acquire(fmt.Sprintf("%d-%d", n, k), fmt.Sprint("owner-", n), id, 60_000, 0).want(200)
		}
	}
	first := read(get("/sessions?limit=2"))
	second := read(get("/sessions?limit=2&after=" + first.NextAfter))
	all := append(first.Sessions, second.Sessions...)
	if len(first.Sessions) != 2 || len(all) != 3 || second.NextAfter != "" {
		t.Fatalf("listed %v and %v", first, second)
	}
	for i, id := range texts(all, "sessionId") {
		if got := texts(all, "heldLockCount")[i]; got != held[id] {
			t.Errorf("session %s holds %s, want %s", id, got, held[id])
		}
	}
	if got := texts(read(get("/sessions?owner=owner-2")).Sessions, "ownerId"); len(got) != 1 || got[0] != "owner-2" {
		t.Errorf("of owner-2 listed %v", got)
	}
}

func TestAListThatIsAskedForWronglyIsRefusedWithTheParameterNamed(t *testing.T) {
	get := private(t, start(t).server)
	for path, says := range map[string]string{
		"/locks?limit=0": "limit", "/locks?limit=1001": "limit", "/locks?limit=x": "limit", "/locks?key=a": `\"key\" is not known`,
		"/locks?owner=a&owner=b": `\"owner\" is given 2 times`, "/sessions?prefix=a": `\"prefix\" is not known`,
		"/sessions?after=a": "after", "/locks?after=%ff": "after", "/locks?owner=" + strings.Repeat("x", 65): "owner", "/locks?a;b": "query",
	} {
		get(path).want(400, "INVALID_REQUEST", says)
	}
}
