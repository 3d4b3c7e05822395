package reports

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// lockScene is a run in which only the lock was put to work: a client is stopped with a key in its hands, another one is
// granted it, and the first one comes back to renew and to release it; then an operator revokes a third grant.
func lockScene() (verdict.Run, []history.Event) {
	w := newWorld(1, false)
	one, two := contract.LockClient(1), contract.LockClient(2)
	row := func(key string, owner contract.Process, token int64) map[string]string {
		return map[string]string{"lock_key": key, "owner_id": string(owner), "fencing_token": num(token)}
	}
	grant := func(t int64, c contract.Process, key string, token int64) {
		w.commit(t+ms, history.LockDB, history.Change{Table: "lock_entry", Kind: history.Insert, New: row(key, c, token)})
		w.call(t, 2*ms, request{from: c, to: contract.LockServer, op: contract.OpAcquire, key: key, status: 200, granted: token, req: `{"ttlMillis":1000}`})
	}
	late := func(t int64, op contract.Op, token int64) {
		w.call(t, 2*ms, request{from: one, to: contract.LockServer, op: op, key: "k/1", token: token, status: 409, code: contract.LockLost})
	}
	grant(100*ms, one, "k/1", 7)
	w.pause(one, 110*ms, 1300*ms, "5ms after acquire.ok")
	grant(1200*ms, two, "k/1", 9)
	late(1310*ms, contract.OpRenew, 7)
	late(1320*ms, contract.OpRelease, 7)
	w.commit(1400*ms, history.LockDB, history.Change{Table: "lock_entry", Kind: history.Delete, Old: row("k/1", two, 9)})
	w.call(1399*ms, 2*ms, request{from: two, to: contract.LockServer, op: contract.OpRelease, key: "k/1", token: 9, status: 204})
	grant(1500*ms, two, "K", 11)
	w.commit(1600*ms, history.LockDB, history.Change{Table: "lock_revocation", Kind: history.Insert, New: map[string]string{"lock_key": "K", "prev_token": "11"}},
		history.Change{Table: "lock_entry", Kind: history.Delete, Old: row("K", two, 11)})
	w.call(1599*ms, 2*ms, request{from: contract.LockOperator, to: contract.LockServer, op: contract.OpRevoke, key: "K", status: 200, res: `{"revokedToken":11,"newTokenFloor":12}`})
	run := verdict.Run{ID: "a-lock-run", Overall: verdict.Pass, Events: int64(len(w.events)),
		Settings: verdict.Settings{Workload: "lock", Backend: "pg", Nemesis: "pause", Clients: 2, Sessions: 1, Keys: 2, Rate: 120, Drive: 2 * time.Second},
		Invariants: []verdict.Invariant{{ID: "INV-06", Status: verdict.Pass, Checked: 5,
			Danger: map[string]int64{"grants": 3, "contended": 0, "stale_releases": 1, "stale_renewals": 1, "woken_refused": 1}}}}
	return run, w.finish()
}

func TestALockRunShowsItsKeysInPlaceOfAccounts(t *testing.T) {
	run, events := lockScene()
	d := study(run, inMemory(events), fullLimits).data
	if !d.Locks || strings.Join(d.Accounts, " ") != "k/1 K" || strings.Join(d.Clients, " ") != "lock-client-1 lock-client-2 lock-operator" {
		t.Errorf("the page is about %v and %v", d.Accounts, d.Clients)
	}
	ends := map[string]leaseEnd{}
	for _, l := range d.Leases {
		ends[l.token] = l.end
	}
	if len(ends) != 3 || ends["7"] != endExpired || ends["9"] != endReleased || ends["11"] != endRevoked {
		t.Errorf("leases ended %v", ends)
	}
	marks := map[string]int{}
	for _, m := range d.Marks {
		marks[m.point+" "+m.op+" "+m.token+" "+m.highest]++
	}
	if len(d.Marks) != 3 || marks["lock renew 7 9"] != 1 || marks["lock release 7 9"] != 1 || marks["revoke revoke 11 "] != 1 {
		t.Errorf("marks: %v", marks)
	}
	var grants, lost int64
	for i := range d.Series.Posted {
		grants, lost = grants+d.Series.Posted[i], lost+d.Series.Refused[i]
	}
	if grants != 3 || lost != 2 {
		t.Errorf("the charts have %d grants and %d refusals", grants, lost)
	}
}

func TestATranscriptOfALockRunSaysThatThereAreNoPayouts(t *testing.T) {
	_, events := lockScene()
	dir := t.TempDir()
	store(t, dir, events)
	if err := Transcript(io.Discard, dir); !errors.Is(err, ErrWhichPayout) || !strings.Contains(err.Error(), "there was none in this run") {
		t.Errorf("got %v", err)
	}
}

func TestALockRunsPageSpeaksOfNoPayout(t *testing.T) {
	run, events := lockScene()
	html, err := build(run, inMemory(events), MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	if h := headlineOf(run, blows{stops: 1}); !strings.Contains(h.Sentence, "2 uses of grants that were over were refused, 1 of them to clients that had been stopped") ||
		!strings.Contains(h.More, "3 grants of 2 keys") {
		t.Errorf("%s %s", h.Sentence, h.More)
	}
	static, _, _ := bytes.Cut(html, []byte(`<script type="application/json"`))
	for _, word := range []string{"payout", "Fence point", "rail", "Executors", `id="story"`} {
		if _, body, _ := bytes.Cut(static, []byte("<body>")); bytes.Contains(body, []byte(word)) {
			t.Errorf("the page has the word %s", word)
		}
	}
	b := openBrowser(t)
	b.load(t, html)
	b.click(t, `[data-by="account"]`)
	if by := ask[string](t, b, `document.querySelector('[data-by="account"][aria-pressed="true"]').textContent`); by != "by key" {
		t.Errorf("the lanes are %s", by)
	}
	b.click(t, "#next-refusal")
	if said := ask[string](t, b, found); !strings.Contains(said, "stale renew refused") {
		t.Errorf("the first refusal is %q", said)
	}
	if rows := ask[int](t, b, `document.querySelectorAll('.refusals tbody tr').length`); rows != 2 {
		t.Errorf("the table has %d refusals", rows)
	}
	b.quiet(t)
}
