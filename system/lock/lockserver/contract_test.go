package lockserver_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestAGrantGoesThroughItsWholeLifeOverHTTP(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		s := v.session("executor-1", 15000)
		g := v.acquire("payout:7", "executor-1", s, 30000, 0).want(200, `"key":"payout:7"`, `"ownerId":"executor-1"`, `"sessionId":"`+s)
		token := g.field("fencingToken")
		v.do("GET", "/v1/locks/payout:7", "").want(200, `"held":true`, `"fencingToken":`+token, `"waiterCount":0`)
		v.do("POST", "/v1/sessions/"+s+"/heartbeat", "{}").want(200, `"heldLockCount":1`, `"serverTime"`, `"expiresAt"`)
		v.do("POST", "/v1/locks/payout:7/renew", fmt.Sprintf(`{"sessionId":%q,"ttlMillis":30000}`, s),
			"X-Owner-Id: executor-1", "X-Fencing-Token: "+token).want(200, `"fencingToken":`+token, `"acquiredAt":"`+g.field("acquiredAt"))
		v.release("payout:7", "executor-1", s, token).want(204)
		v.do("GET", "/v1/locks/payout:7", "").want(200, `{"held":false,"waiterCount":0}`)
		v.release("payout:7", "executor-1", s, token).want(409, "LOCK_LOST", `"retrySafe":false`)
		v.do("DELETE", "/v1/sessions/"+s, "{}").want(204)
		v.do("DELETE", "/v1/sessions/"+s, "{}").want(404, "SESSION_UNKNOWN")
		for _, e := range []string{`"event":"lock_granted"`, `"event":"lock_released"`} {
			if !v.logged(e, `"key":"payout:7"`, `"fencingToken":`+token) {
				t.Errorf("the log has no %s", e)
			}
		}
		if !v.logged("lock_released", `"stale":true`) || !v.logged("lock_released", `"stale":false`) {
			t.Error("the log does not tell the stale release from the true one")
		}
	})
}

func TestRefusalsSayWhatIsTheMatter(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		a, b := v.session("a", 15000), v.session("b", 15000)
		token := v.acquire("k", "a", a, 30000, 0).want(200).field("fencingToken")
		unknown := uuid.NewString()
		head := []string{"X-Owner-Id: b", "X-Fencing-Token: 999"}
		v.acquire("k", "b", b, 30000, 0).want(409, "LOCK_CONTENDED", `"holder":"a"`, `"expiresAt"`, `"retrySafe":true`, `"traceId"`)
		v.acquire("k", "b", unknown, 30000, 0).want(404, "SESSION_UNKNOWN")
		v.do("POST", "/v1/sessions/"+unknown+"/heartbeat", "{}").want(404, "SESSION_UNKNOWN")
		v.do("POST", "/v1/sessions/nonsense/heartbeat", "{}").want(404, "SESSION_UNKNOWN")
		v.do("POST", "/v1/locks/k/renew", `{"sessionId":"`+b+`"}`, head...).want(409, "LOCK_LOST", `"storedToken":`+token)
		v.do("POST", "/v1/locks/k/renew", `{"sessionId":"`+unknown+`"}`, head...).want(410, "SESSION_EXPIRED")
		v.do("POST", "/v1/locks/k/renew", `{"sessionId":"`+unknown+`"}`, "X-Owner-Id: a", "X-Fencing-Token: "+token).
			want(200) // a live row matches: the session decides nothing
		v.do("POST", "/v1/locks/k/renew", `{"sessionId":"`+a+`","ttlMillis":29999}`, "X-Owner-Id: a", "X-Fencing-Token: "+token).
			want(400, "INVALID_REQUEST", "ttlMillis")
		v.release("k", "b", b, "999").want(409, "LOCK_LOST", `"storedToken":`+token)
		v.do("POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"stuck for long","expectedToken":999}`).
			want(409, "FENCED_OUT", `"presentedToken":999`, `"highestToken":`+token)
		v.do("POST", "/v1/locks/free/revoke", `{"operator":"olga","reason":"stuck for long"}`).want(404, "NOT_FOUND")
		r := v.do("POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"stuck for long","expectedToken":`+token+`}`).
			want(200, `"revokedToken":`+token, `"newTokenFloor"`, `"revocationId"`)
		v.acquire("k", "b", b, 30000, 0).want(200)
		if !v.logged("lock_revoked", `"operator":"olga"`, `"reason":"stuck for long"`, `"newTokenFloor":`+r.field("newTokenFloor")) {
			t.Error("the revoke is not in the log")
		}
		v.do("PUT", "/v1/locks/k", "{}").want(405, "METHOD_NOT_ALLOWED")
		v.do("GET", "/v2/locks/k", "").want(404, "NOT_FOUND")
	})
}

// Every request that is not what the contract says is refused with the field's name, and nothing is written.
func TestRequestsThatTheContractDoesNotKnowAreRefusedAndWriteNothing(t *testing.T) {
	onBoth(t, refusesWhatTheContractDoesNotKnow)
}

func refusesWhatTheContractDoesNotKnow(t *testing.T, on backend) {
	v := on.serve(t, 100)
	s := uuid.NewString()
	owner, token := "X-Owner-Id: a", "X-Fencing-Token: 1"
	ok := fmt.Sprintf(`{"sessionId":%q}`, s)
	type request struct {
		method, path, body string
		head               []string
		named              string
	}
	var all []request
	add := func(method, path, body, named string, head ...string) {
		all = append(all, request{method, path, body, head, named})
	}
	for _, body := range []string{"", "[]", "null", "{", `{"a":1}{}`, `{"nonsense":1}`, `"x"`} {
		add("POST", "/v1/sessions", body, "")
		add("POST", "/v1/sessions/"+s+"/heartbeat", body, "")
		add("DELETE", "/v1/sessions/"+s, body, "")
		add("POST", "/v1/locks/k/acquire", body, "", owner)
		add("POST", "/v1/locks/k/renew", body, "", owner, token)
		add("DELETE", "/v1/locks/k", body, "", owner, token)
		add("POST", "/v1/locks/k/revoke", body, "")
	}
	add("POST", "/v1/sessions", `{"ownerId":"a","ttlMillis":999}`, "ttlMillis")
	add("POST", "/v1/sessions", `{"ownerId":"a","ttlMillis":60001}`, "ttlMillis")
	add("POST", "/v1/sessions", `{"ownerId":"a","ttlMillis":"1000"}`, "ttlMillis")
	add("POST", "/v1/sessions", `{"ownerId":"a","ttlMillis":1000.5}`, "ttlMillis")
	add("POST", "/v1/sessions", `{"ownerID":"a","ttlMillis":1000}`, "ownerID")
	add("POST", "/v1/sessions", `{"ttlMillis":1000}`, "ownerId")
	add("POST", "/v1/sessions", `{"ownerId":"","ttlMillis":1000}`, "ownerId")
	add("POST", "/v1/sessions", `{"ownerId":"a\u0000","ttlMillis":1000}`, "ownerId")
	add("POST", "/v1/sessions", `{"ownerId":"`+strings.Repeat("a", 65)+`","ttlMillis":1000}`, "ownerId")
	for _, body := range []string{`{"ttlMillis":1000}`, `{"sessionId":7}`, `{"sessionId":""}`, `{"sessionId":"x"}`,
		`{"sessionId":"` + strings.ToUpper(s) + `"}`, `{"sessionId":"{` + s + `}"}`} {
		add("POST", "/v1/locks/k/acquire", body, "sessionId", owner)
		add("DELETE", "/v1/locks/k", strings.Replace(body, `"ttlMillis":1000`, "", 1), "sessionId", owner, token)
		add("POST", "/v1/locks/k/renew", body, "sessionId", owner, token)
	}
	for _, extra := range []string{`"ttlMillis":0`, `"ttlMillis":-1`, `"ttlMillis":60001`, `"ttlMillis":1e3`, `"waitMillis":-1`, `"waitMillis":30001`} {
		name, _, _ := strings.Cut(strings.Trim(extra, `"`), `"`)
		add("POST", "/v1/locks/k/acquire", fmt.Sprintf(`{"sessionId":%q,%s}`, s, extra), name, owner)
	}
	for _, bad := range []string{"0", "-1", "9223372036854775808", "+41", "041", "4 1", "1e3", "0x29", "", "4.0", "४१"} {
		add("POST", "/v1/locks/k/renew", ok, "X-Fencing-Token", owner, "X-Fencing-Token: "+bad)
		add("DELETE", "/v1/locks/k", ok, "X-Fencing-Token", owner, "X-Fencing-Token: "+bad)
	}
	add("POST", "/v1/locks/k/renew", ok, "X-Fencing-Token", owner)
	add("POST", "/v1/locks/k/renew", ok, "X-Fencing-Token", owner, token, token)
	add("DELETE", "/v1/locks/k", ok, "X-Fencing-Token", owner)
	add("POST", "/v1/locks/k/acquire", ok, "X-Owner-Id")
	add("POST", "/v1/locks/k/acquire", ok, "X-Owner-Id", owner, owner)
	add("POST", "/v1/locks/k/acquire", ok, "X-Owner-Id", "X-Owner-Id: "+strings.Repeat("a", 65))
	add("POST", "/v1/locks/k/renew", ok, "X-Owner-Id", token)
	add("DELETE", "/v1/locks/k", ok, "X-Owner-Id", token)
	add("POST", "/v1/locks/"+strings.Repeat("k", 513)+"/acquire", ok, "key", owner)
	add("GET", "/v1/locks/"+strings.Repeat("k", 513), "", "key")
	add("GET", "/v1/locks/%00", "", "key")
	add("GET", "/v1/locks/%ff", "", "key")
	add("POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"short"}`, "reason")
	add("POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"         "}`, "reason")
	add("POST", "/v1/locks/k/revoke", `{"operator":" ","reason":"long enough"}`, "operator")
	add("POST", "/v1/locks/k/revoke", `{"operator":"olga"}`, "reason")
	add("POST", "/v1/locks/k/revoke", `{"operator":"","reason":"long enough"}`, "operator")
	add("POST", "/v1/locks/k/revoke", `{"reason":"long enough"}`, "operator")
	add("POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"long enough","expectedToken":0}`, "expectedToken")
	add("POST", "/v1/locks/k/acquire", `{"sessionId":"`+strings.Repeat("x", 1<<20)+`"}`, "body", owner)
	for _, r := range all {
		got := v.do(r.method, r.path, r.body, r.head...)
		if got.status != 400 || !strings.Contains(got.body, r.named) || !strings.Contains(got.body, `"retrySafe":false`) || got.field("traceId") == "" {
			t.Errorf("%s %.60s %.80s %q: got %d %s, want 400 that names %q", r.method, r.path, r.body, r.head, got.status, got.body, r.named)
		}
	}
	if n := on.stored(t); n != 0 {
		t.Fatalf("%d sessions and grants were written", n)
	}
}

func TestKeysAreWhatThePathSaysDecoded(t *testing.T) {
	onBoth(t, func(t *testing.T, on backend) {
		v := on.serve(t, 100)
		s := v.session("a", 15000)
		for path, key := range map[string]string{
			"payout:1": "payout:1", "payout%3A2": "payout:2", "a%2Fb": "a/b", "a%252Fb": "a%2Fb", "a%20b+c": "a b+c", "%C3%A9": "é",
			"..": "..", "%25": "%", "acquire": "acquire", strings.Repeat("%61", 512): strings.Repeat("a", 512),
		} {
			token := v.acquire(path, "a", s, 30000, 0).want(200).field("fencingToken")
			if got := on.keys(t); len(got) != 1 || got[0] != key {
				t.Errorf("%s is key %q, want %q", path, got, key)
			}
			v.do("GET", "/v1/locks/"+path, "").want(200, `"fencingToken":`+token)
			v.release(path, "a", s, token).want(204)
		}
	})
}

func TestHugeTokensPassEveryPathUnchanged(t *testing.T) {
	v := serve(t, lockdb(t, server), 100) // its tokens end here
	s := v.session("a", 15000)
	next := func(token string, by int64) string {
		n, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatInt(n+by, 10)
	}
	for _, last := range []int64{1<<53 - 2, 1<<53 - 1, 1 << 53, 1<<63 - 4} {
		query[int64](v, "SELECT setval('fencing_token_seq', $1)", last)
		token := v.acquire("k", "a", s, 30000, 0).want(200).field("fencingToken")
		if stored := query[string](v, "SELECT fencing_token::text FROM lock_entry"); stored != token {
			t.Fatalf("stored %s, answered %s", stored, token)
		}
		v.do("GET", "/v1/locks/k", "").want(200, `"fencingToken":`+token+",")
		v.do("POST", "/v1/locks/k/renew", `{"sessionId":"`+s+`"}`, "X-Owner-Id: a", "X-Fencing-Token: "+token).want(200, `"fencingToken":`+token+",")
		v.release("k", "a", s, "1").want(409, `"storedToken":`+token+"}")
		v.do("POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"stuck for long","expectedToken":`+next(token, -1)+`}`).
			want(409, `"presentedToken":`+next(token, -1)+",", `"highestToken":`+token+",")
		v.do("POST", "/v1/locks/k/revoke", `{"operator":"olga","reason":"stuck for long","expectedToken":`+token+`}`).
			want(200, `"revokedToken":`+token+",", `"newTokenFloor":`+next(token, 1)+",")
	}
}

func TestNoMetricLabelHoldsAKeyAnIDOrAToken(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		s := v.session("owner-of-the-test", 15000)
		token := v.acquire("key-of-the-test", "owner-of-the-test", s, 30000, 0).want(200).field("fencingToken")
		v.acquire("key-of-the-test", "b", v.session("b", 15000), 30000, 0).want(409)
		v.release("key-of-the-test", "owner-of-the-test", s, token).want(204)
		families, err := v.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		allowed := map[string]bool{"pg": true, "etcd": true, "granted": true, "contended": true}
		names := map[string]bool{}
		for _, f := range families {
			names[f.GetName()] = true
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if !allowed[l.GetValue()] {
						t.Errorf("%s has label %s=%q", f.GetName(), l.GetName(), l.GetValue())
					}
				}
			}
		}
		for _, want := range []string{"lock_acquire_seconds", "lock_lease_expired_total", "lock_held_current", "lock_waiters_current", "lock_session_lost_total"} {
			if !names[want] {
				t.Errorf("metric %s is missing", want)
			}
		}
	})
}
