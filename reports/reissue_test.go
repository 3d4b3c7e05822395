package reports

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
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
		Sentence: "74 tokens from 193 to 715 were issued twice, by a standby that was promoted and lacked what its primary had granted last: 208 to executor-6 for " + a + " and again, and 73 more",
		Events: []history.Event{granted(1, "executor-6", "s1", a, 208), granted(2, "executor-4", "s2", a, 248),
			granted(3, "executor-6", "s1", a, 208), granted(4, "executor-2", "s3", b, 248)},
	}
	const want = "74 tokens from 193 to 715 were issued twice, by a standby that was promoted and lacked what its primary had granted last: " +
		"208 to executor-6 twice (account dee9d383), 248 to executor-4 and again to executor-2 (account dee9d383, then account 709da173), and 72 more"
	if got := tell(v, subjects{}, 74); got != want {
		t.Errorf("told as\n%s", got)
	}
}

func TestATokenIsIssuedTwiceOnlyByAStoreThatBeganAnew(t *testing.T) {
	s := newIssued()
	log := func(epoch int) { s.observe(&history.Event{W: history.LockDB, Epoch: epoch}) }
	ask := func(call int64) {
		s.observe(&history.Event{W: history.Wiretap, Op: contract.OpAcquire, Stage: history.Received, Call: call})
	}
	answer := func(call, token int64) *reissue {
		e := granted(call, "executor-1", "s", "k", token)
		return s.observe(&e)
	}
	ask(1)
	answer(1, 7)
	ask(2)
	if r := answer(2, 7); r != nil {
		t.Error("the same epoch answered 7 again, which is told elsewhere")
	}
	ask(3)
	log(1)
	if r := answer(3, 7); r != nil {
		t.Error("nobody knows in which epoch call 3 was granted")
	}
	ask(4)
	if r := answer(4, 7); r == nil || r.first.call != 2 || r.again.call != 4 {
		t.Errorf("the later epoch issued 7 again: %+v", r)
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
	again := []reissue{{token: 250, again: issue{key: "a"}}, {token: 9, again: issue{key: "b"}}, {token: 248, again: issue{key: "c"}}}
	rows, title := reissuesView(again, subjects{locks: true})
	if len(rows) != 3 || rows[0].Token != "9" || rows[1].Token != "248" || rows[2].Token != "250" || !strings.HasSuffix(title, ": 3 tokens") {
		t.Errorf("%s: %+v", title, rows)
	}
}
