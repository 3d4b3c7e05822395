package lockctl_test

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAKeyIsShownToPeopleAndToMachinesWithEveryBitOfItsToken(t *testing.T) {
	s := newSystem(t)
	s.want(s.ctl("inspect", "payout:a/ü"), 0, "KEY      payout:a/ü\nHELD     no\nWAITING  0\n")
	s.exec(server.URL("lockapp", s.lockdb), "ALTER SEQUENCE fencing_token_seq RESTART WITH 9223372036854775806")
	s.hold("payout:a/ü", "executor-2")
	s.want(s.ctl("inspect", "payout:a/ü"), 0, "HELD      by executor-2\nTOKEN     9223372036854775806\nACQUIRED  20", "Z\nEXPIRES   20")
	r := s.want(s.ctl("inspect", "payout:a/ü", "--json"), 0)
	var h struct {
		Key, OwnerID string
		Held         bool
		FencingToken json.Number
	}
	if err := json.Unmarshal([]byte(r.out), &h); err != nil || h.Key != "payout:a/ü" || !h.Held || h.OwnerID != "executor-2" || h.FencingToken != "9223372036854775806" {
		t.Errorf("%+v, %v in %s", h, err, r.out)
	}
	s.want(s.ctl("list", "--json"), 0, `"fencingToken": 9223372036854775806,`)
}

func TestGrantsAndSessionsAreListedUpToTheLimitAndItIsSaidThatThereAreMore(t *testing.T) {
	s := newSystem(t)
	s.want(s.ctl("list"), 0, "KEY  OWNER  TOKEN  ACQUIRED  EXPIRES  SESSION\n")
	a, b := s.session("executor-1"), s.session("executor-2")
	s.exec(server.URL("lockapp", s.lockdb), `INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at)
		SELECT 'payout:' || lpad(n::text, 4, '0'), 'executor-1', $1, nextval('fencing_token_seq'), now() + interval '1 hour' FROM generate_series(1, 1004) n`, a)
	s.acquire("other", "executor-2", b)
	if r := s.want(s.ctl("list"), 0, "there may be more than these 1000"); strings.Count(r.out, "\n") != 1001 {
		t.Errorf("%d lines", strings.Count(r.out, "\n"))
	}
	if r := s.want(s.ctl("list", "--limit", "5000"), 0); strings.Count(r.out, "\n") != 1006 || r.err != "" {
		t.Errorf("%d lines, %s", strings.Count(r.out, "\n"), r.err)
	}
	if r := s.want(s.ctl("list", "--owner", "executor-2"), 0, "other  executor-2"); strings.Count(r.out, "\n") != 2 {
		t.Errorf("of executor-2:\n%s", r.out)
	}
	if r := s.want(s.ctl("list", "--prefix", "payout:000"), 0, "payout:0001  executor-1  1  "); strings.Count(r.out, "\n") != 10 {
		t.Errorf("of payout:000:\n%s", r.out)
	}
	s.want(s.ctl("sessions"), 0, "SESSION ", b+"  executor-2  1m0s", "  1004\n")
	s.want(s.ctl("sessions", "--owner", "nobody", "--json"), 0, `"sessions": [],`, `"more": false`)
}

func TestASilentServerIsAnErrorThatChangedNothing(t *testing.T) {
	s := newSystem(t)
	s.extra = []string{"LOCK_CTL_SERVERURL=http://127.0.0.1:1", "LOCK_CTL_ADMINURL=http://127.0.0.1:1", "LOCK_CTL_PAYMENTRESOURCEURL=http://127.0.0.1:1"}
	for _, args := range [][]string{{"inspect", "k"}, {"list"}, {"sessions"}, deed("revoke", "k"), deed("abandon", "0d5f9c1e-6c55-4a8e-9a3e-0c1b8d9d7f10")} {
		s.want(s.ctl(args...), 1, "connection refused")
	}
}

func TestWrongUsageNamesWhatWasProbablyMeant(t *testing.T) {
	s := newSystem(t)
	payout := "0d5f9c1e-6c55-4a8e-9a3e-0c1b8d9d7f10"
	for _, c := range []struct {
		says string
		args []string
	}{
		{`"inspekt" is not a command; did you mean "inspect"?`, []string{"inspekt", "k"}},
		{"--opertor is not a flag of lockctl revoke; did you mean --operator?", []string{"revoke", "k", "--opertor", "olga"}},
		{"lockctl inspect takes KEY and was given 0 arguments", []string{"inspect"}},
		{"lockctl list takes no arguments and was given 1", []string{"list", "k"}},
		{"--operator is missing", []string{"revoke", "k", "--reason", "long enough", "--yes"}},
		{"--reason is missing", []string{"abandon", payout, "--operator", "olga", "--yes"}},
		{"--reason has 7 characters and needs at least 8", []string{"revoke", "k", "--operator", "olga", "--reason", "  short 1  "}},
		{"--operator has 0 characters", []string{"revoke", "k", "--operator", " ", "--reason", "long enough"}},
		{"--operator has 65 bytes", []string{"revoke", "k", "--operator", strings.Repeat("o", 65), "--reason", "long enough"}},
		{"control characters", []string{"revoke", "k", "--operator", "olga", "--reason", "long\nenough"}},
		{"standard input is no terminal", []string{"revoke", "k", "--operator", "olga", "--reason", "long enough"}},
		{"--expect is", deed("revoke", "k", "--expect", "041")},
		{"is no payout id", deed("abandon", "7")},
		{"--wait is 31s", deed("abandon", payout, "--wait", "31s")},
		{"--floor is", deed("restore-guard", "--floor", "-1")},
		{"--snapshot and what goes with it are for --backend etcd", deed("restore-guard", "--snapshot", "f", "--data-dir", "d")},
		{"--snapshot and --data-dir go together", deed("restore-guard", "--backend", "etcd", "--snapshot", "f")},
		{"no other flag says anything", deed("restore-guard", "--backend", "etcd", "--endpoints", "http://127.0.0.1:1", "--floor", "7")},
		{"ETCD_ENDPOINTS or --endpoints", deed("restore-guard", "--backend", "etcd")},
		{"LOCK_BACKEND: \"etcdd\" is no lock backend", deed("restore-guard", "--backend", "etcdd")},
		{"LOCK_CTL_SERVERURL", []string{"inspect", "k", "--server", "here"}},
	} {
		s.want(s.ctl(c.args...), 2, c.says)
	}
}
