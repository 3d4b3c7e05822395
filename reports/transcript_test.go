package reports

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/synthetic"
)

// recorded is a stored history with pauses, declines and lost replies, whose witnesses are behind as real ones are.
func recorded(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if _, err := synthetic.Write(dir, synthetic.Options{Seed: 5, Events: 60_000}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func transcripts(t *testing.T, dir string, payouts ...string) []string {
	t.Helper()
	var b strings.Builder
	if err := Transcript(&b, dir, payouts...); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(b.String()), "\n\n")
}

// effectOf pairs an answer with the effect that it reports; %s is the token.
var effectOf = map[string]string{
	`(?m)^\[executor-\d+\] +claim .*: (\d+) +→ 200$`:            `claim token (?:\d+ → )?%s\n`,
	`(?m)^\[executor-\d+\] +submitted .*: (\d+) +→ 200$`:        `payout CLAIMED → RAIL_SUBMITTED, claim token %s\n`,
	`(?m)^\[executor-\d+\] +submit .*: (\d+) +→ 200 ACKED$`:     `rail_submission under token %s: ACKED\n`,
	`(?m)^\[executor-\d+\] +outcome .*: (\d+) +→ 200 ACKED$`:    `payout RAIL_SUBMITTED → RAIL_ACKED, claim token %s\n`,
	`(?m)^\[executor-\d+\] +post .*: (\d+) +→ 200$`:             `payout RAIL_ACKED → POSTED, claim token %s\n`,
	`(?m)^\[paydb\] +rail_submission under token (\d+): ACKED$`: `MONEY MOVED`,
}

func TestATranscriptTellsEveryEffectBeforeTheAnswerThatReportsIt(t *testing.T) {
	found := map[string]int{}
	for _, story := range transcripts(t, recorded(t)) {
		for answer, effect := range effectOf {
			for _, at := range regexp.MustCompile(answer).FindAllStringSubmatchIndex(story, -1) {
				found[answer]++
				want := strings.ReplaceAll(effect, "%s", story[at[2]:at[3]])
				if !regexp.MustCompile(want).MatchString(story[:at[0]]) {
					t.Errorf("%q does not come before %q:\n%s", want, story[at[0]:at[1]], story)
				}
			}
		}
	}
	for answer := range effectOf {
		if found[answer] < 10 {
			t.Errorf("only %d answers like %s were looked at", found[answer], answer)
		}
	}
}

func TestAPayoutIsNamedByHowItsIDBegins(t *testing.T) {
	dir := recorded(t)
	first := transcripts(t, dir)[0]
	id := strings.TrimPrefix(strings.SplitN(first, "\n", 2)[0], "payout ")
	for _, n := range []int{len(id), len(id) - 1, 10} {
		if got := transcripts(t, dir, id[:n]); len(got) != 1 || got[0] != first {
			t.Fatalf("%s tells %q", id[:n], got)
		}
	}
	for _, wrong := range []string{"", "no such payout"} { // all begin with nothing
		if err := Transcript(&strings.Builder{}, dir, wrong); !errors.Is(err, ErrWhichPayout) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// A revoke hits a grant, and names no payout: which one its holder had claimed under it, the rows tell.
func TestWithoutANameATranscriptTellsOfThePayoutWhoseGrantWasRevoked(t *testing.T) {
	dir := t.TempDir()
	rec, err := history.Create(dir, history.Header{RunID: "revoked"})
	if err != nil {
		t.Fatal(err)
	}
	payout := func(id, state, token string) history.Event {
		row := map[string]string{"payout_id": id, "account_id": "alice", "state": state, "amount_minor": "100", "currency": "EUR"}
		if token != "" {
			row["claim_token"] = token
		}
		return history.Event{Type: contract.OK, Op: history.OpCommit, Changes: []history.Change{{Table: "payout", Kind: history.Insert, New: row}}}
	}
	call := func(n int64, e history.Event) {
		e.Call, e.Link, e.Stage, e.Type = n, string(e.Proc)+"→lock-server", history.Received, contract.Invoke
		status, res, granted := e.Status, e.Res, e.Granted
		e.Status, e.Res, e.Granted = 0, "", 0
		rec.Record(history.Wiretap, e)
		e.Status, e.Res, e.Granted, e.Stage, e.Type = status, res, granted, history.Answered, contract.OK
		rec.Record(history.Wiretap, e)
	}
	rec.Record(history.PayDB, payout("another", "PENDING", ""))
	rec.Record(history.PayDB, payout("mine", "PENDING", ""))
	call(1, history.Event{Proc: "executor-1", Op: contract.OpAcquire, Key: "payout:alice", Status: 200, Granted: 7})
	rec.Record(history.Nemesis, history.Event{Type: contract.Info, Op: "revoke", Key: "payout:alice", Token: 7, Window: 1, Phase: "inject", Target: "executor-1"})
	for _, phase := range []string{"inject", "seen"} {
		rec.Record(history.Nemesis, history.Event{Type: contract.Info, Op: "kill", Key: "payout:alice", Token: 7, Window: 2, Phase: phase, Target: "executor-1"})
		rec.Record(history.Nemesis, history.Event{Type: contract.Info, Op: "kill", Key: "payout:alice", Token: 5, Window: 3, Phase: phase, Target: "executor-2"})
	}
	call(2, history.Event{Proc: "operator", Op: contract.OpRevoke, Key: "payout:alice", Status: 200, Res: `{"revokedToken":7,"newTokenFloor":8}`})
	call(3, history.Event{Proc: "operator", Op: contract.OpRevoke, Key: "payout:alice", Status: 200, Res: `{"revokedToken":5,"newTokenFloor":9}`})
	rec.Record(history.PayDB, payout("mine", "CLAIMED", "7"))
	call(4, history.Event{Proc: "executor-1", Op: contract.OpClaim, Payout: "mine", Token: 7, Status: 200})
	rec.Record(history.PayDB, payout("another", "CLAIMED", "11"))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	got := transcripts(t, dir)
	if len(got) != 1 || !strings.HasPrefix(got[0], "payout mine\n") {
		t.Fatalf("tells of %q", got)
	}
	if !strings.Contains(got[0], "[operator]         revoke the grant of the account     → token 7 is worth nothing any more") || strings.Contains(got[0], "token 5") {
		t.Errorf("the revoke of 7, and of it alone, is not told:\n%s", got[0])
	}
	if !strings.Contains(got[0], "[executor-1]       KILLED: what it had in hand for token 7") || strings.Contains(got[0], "executor-2") {
		t.Errorf("the kill of the holder, and of it alone, is not told:\n%s", got[0])
	}
}
