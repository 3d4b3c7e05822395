package reports

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/invariant"
	"fenceproof/checker/reissue"
	"fenceproof/checker/verdict"
)

// rewound is a stored run whose lock store was put back and issued token 35 again, with its history.
func rewound(t *testing.T) (run verdict.Run, historyDir string) {
	t.Helper()
	dir := filepath.Join("..", "checker", "golden", "testdata", "two-epochs-rewound")
	b, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &run); err != nil {
		t.Fatal(err)
	}
	return run, filepath.Join(dir, "history")
}

func TestTheReportSaysInOneSentenceWhichTokensWereIssuedTwiceAndToWhom(t *testing.T) {
	run, dir := rewound(t)
	const says = "oken 35 was issued twice, by a lock store that had forgotten what it granted last: to lock-client-2 and again to lock-client-2 in a later session (key-1)"
	if h := headlineOf(run, blows{}); !strings.Contains(h.Sentence, says) {
		t.Errorf("the headline says %q", h.Sentence)
	}
	if s := Summary(run); !strings.Contains(s, "- **INV-04**: t"+says+"\n") {
		t.Errorf("the summary says\n%s", s)
	}
	html, err := build(run, openHistory(dir), MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<span class="sentence">T` + says, "Which tokens were issued twice, and to whom: 1 token<",
		"to lock-client-2 at 1.205 s, again to lock-client-2, in a later session, at "} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// granted is an answered acquire, as the wiretap has it.
func granted(i int64, to, session, key string, token int64) history.Event {
	return history.Event{I: i, T: i * 1_000_000_000, W: history.Wiretap, Type: contract.OK, Proc: contract.Process(to), Op: contract.OpAcquire,
		Stage: history.Answered, Call: i, Key: key, Session: session, Granted: token, Status: 200}
}

func TestOfManyTokensThoseAreNamedThatTheEvidenceProves(t *testing.T) {
	const a, b = "payout:dee9d383-e9f0-496c-b3b1-ce6aff1b30c8", "payout:709da173-d6d8-4bf3-8576-68b63aafb94f"
	v := verdict.Violation{
		Reissued: 74,
		Sentence: "74 tokens from 193 to 715 were issued twice, by a standby that was promoted and lacked what its primary had granted last: 208 to executor-6 for " + a + " and again, and 73 more",
		Events: []history.Event{granted(1, "executor-6", "s1", a, 208), granted(2, "executor-4", "s2", a, 248),
			granted(3, "executor-6", "s1", a, 208), granted(4, "executor-2", "s3", b, 248)},
	}
	const want = "74 tokens from 193 to 715 were issued twice, by a standby that was promoted and lacked what its primary had granted last: " +
		"208 to executor-6 twice (account dee9d383), 248 to executor-4 and again to executor-2 (account dee9d383, then account 709da173), and 72 more"
	if got := tell(v, subjects{}); got != want {
		t.Errorf("told as\n%s", got)
	}
}

// The page's list and the verdict's sentence are about the same tokens: a request that had arrived before the store began anew and
// was forwarded after that was granted by the new one.
func TestTheListHoldsWhatTheVerdictCounts(t *testing.T) {
	const account = "dee9d383-e9f0-496c-b3b1-ce6aff1b30c8"
	w := newWorld(1, false)
	acquire := func(at int64) {
		w.call(at, ms, request{from: contract.Executor(1), to: contract.LockServer, op: contract.OpAcquire, key: keyPrefix + account, status: 200, granted: 7})
	}
	acquire(100 * ms)
	w.commit(200*ms+10_000, history.LockDB).Epoch = 1
	acquire(200 * ms) // forwarded 30 µs later
	events := w.finish()
	judge := invariant.NewJudge(verdict.Settings{})
	for i := range events {
		judge.Observe(&events[i])
	}
	run := verdict.Run{Invariants: judge.Conclude(nil)}
	v := viewOf(run, study(run, inMemory(events), fullLimits))
	for _, vv := range v.Violations {
		if strings.HasPrefix(vv.Sentence, "Token 7 was issued twice") {
			if len(vv.Reissued) != 1 || vv.Reissued[0].Token != "7" {
				t.Errorf("%s\nlists %+v", vv.Sentence, vv.Reissued)
			}
			return
		}
	}
	t.Fatalf("the verdict does not say it: %+v", v.Violations)
}

// Words do not make a violation one of tokens that were issued twice.
func TestAViolationTellsOfTokensIssuedTwiceWhereItIsMarkedSo(t *testing.T) {
	v := verdict.Violation{Sentence: "no token was issued twice: so much is known", Events: []history.Event{granted(1, "a", "s1", "k", 7), granted(2, "b", "s2", "k", 7)}}
	if got := tell(v, subjects{}); got != v.Sentence {
		t.Errorf("told as %s", got)
	}
}

func TestIdsThatBeginAlikeStayWhole(t *testing.T) {
	const a, b = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	if got := brief(a + " and " + a); got != "00000000 and 00000000" {
		t.Error(got)
	}
	if got := brief(a + " and " + b); got != a+" and "+b {
		t.Error(got)
	}
}

func TestTheTokensThatWereIssuedTwiceAreListedInOrder(t *testing.T) {
	var r reissues
	r.add(nil) // most events complete no pair
	for n := range int64(maxReissued + 1) {
		if n == 3 {
			rows, title := r.view(3, subjects{locks: true})
			if len(rows) != 3 || rows[0].Token != "998" || rows[1].Token != "999" || rows[2].Token != "1000" || title != "Which tokens were issued twice, and to whom: 3 tokens" {
				t.Errorf("%s: %+v", title, rows)
			}
			if _, title := r.view(5, subjects{}); title != "Which tokens the history shows to have been issued twice, and to whom: 3 tokens" {
				t.Errorf("the verdict tells of 5: %s", title)
			}
		}
		r.add(&reissue.Pair{First: reissue.Grant{Token: 1000 - n}, Again: reissue.Grant{Token: 1000 - n}})
	}
	if rows, title := r.view(maxReissued+1, subjects{}); len(rows) != maxReissued || !strings.HasSuffix(title, ": 301 tokens, of which 300 are listed") {
		t.Errorf("%d rows: %s", len(rows), title)
	}
}
