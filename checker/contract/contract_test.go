package contract

import "testing"

func TestEveryAnswerOfTheContractIsClassified(t *testing.T) {
	for _, c := range []struct {
		op      Op
		status  int
		code    Code
		want    Type
		outcome Outcome
	}{
		// Definite success.
		{OpOpenSession, 201, "", OK, ""}, {OpHeartbeat, 200, "", OK, ""}, {OpCloseSession, 204, "", OK, ""},
		{OpAcquire, 200, "", OK, ""}, {OpRenew, 200, "", OK, ""}, {OpRelease, 204, "", OK, ""}, {OpRevoke, 200, "", OK, ""},
		{OpClaim, 200, "", OK, ""}, {OpPost, 200, "", OK, ""}, {OpSubmitted, 200, "", OK, ""}, {OpOutcome, 200, "", OK, ""},
		{OpResolve, 200, "", OK, ""}, {OpTransfer, 200, "", OK, ""}, {OpSubmit, 200, "", OK, OutcomeAcked},
		// Refusals that commit rows are ok with an outcome.
		{OpClaim, 422, InsufficientFunds, OK, ""},
		{OpSubmit, 409, FencedOut, OK, OutcomeFenced}, {OpSubmit, 409, DuplicateSubmission, OK, OutcomeDuplicate}, {OpSubmit, 422, Rejected, OK, OutcomeRejected},
		// Definite refusals without effect.
		{OpPost, 422, InsufficientFunds, Fail, ""}, {OpClaim, 409, FencedOut, Fail, ""}, {OpPost, 409, FencedOut, Fail, ""},
		{OpClaim, 409, PayoutNotClaimable, Fail, ""}, {OpOutcome, 422, IdempotencyConflict, Fail, ""}, {OpClaim, 400, InvalidToken, Fail, ""},
		{OpAcquire, 409, LockContended, Fail, ""}, {OpAcquire, 429, ContentionExceeded, Fail, ""}, {OpAcquire, 404, SessionUnknown, Fail, ""},
		{OpRenew, 409, LockLost, Fail, ""}, {OpRelease, 409, LockLost, Fail, ""}, {OpHeartbeat, 410, SessionExpired, Fail, ""},
		{OpRevoke, 409, FencedOut, Fail, ""}, {OpGetPayout, 404, NotFound, Fail, ""}, {OpClaim, 405, MethodNotAllowed, Fail, ""},
		{OpSubmit, 503, RailUnavailable, Fail, ""}, {OpSubmit, 400, InvalidRequest, Fail, ""},
		{OpTransfer, 402, "DECLINED", Fail, ""},
		// Nobody can tell.
		{OpSubmit, 409, CodeRailAmbiguous, Info, OutcomeUnknown}, {OpSubmit, 500, "", Info, OutcomeUnknown}, {OpSubmit, 0, "", Info, OutcomeUnknown},
		{OpSubmit, 409, "", Info, OutcomeUnknown}, {OpSubmit, 302, "", Info, OutcomeUnknown},
		{OpClaim, 503, StoreUnavailable, Info, ""}, {OpAcquire, 503, NotLeader, Info, ""}, {OpClaim, 0, "", Info, ""}, {OpPost, 500, "", Info, ""},
		{OpPost, 408, InvalidRequest, Info, ""}, {OpPost, 429, "", Info, ""}, {OpPost, 429, StoreUnavailable, Info, ""},
		{OpClaim, 409, "", Info, ""}, {OpClaim, 301, "", Info, ""}, // no envelope: not the contract's answer
		{OpTransfer, 500, "", Info, ""}, {OpTransfer, 302, "", Info, ""}, {OpTransfer, 408, "", Info, ""}, {OpTransfer, 429, "", Info, ""},
		{OpTransfer, 0, "", Info, ""}, {OpTransfer, 404, NotFound, Info, ""}, {OpTransfer, 400, InvalidRequest, Info, ""},
	} {
		if got, outcome := Completion(c.op, c.status, c.code); got != c.want || outcome != c.outcome {
			t.Errorf("%s answered %d %s is %s %q, want %s %q", c.op, c.status, c.code, got, outcome, c.want, c.outcome)
		}
	}
}

func TestMethodAndPathNameTheOperation(t *testing.T) {
	for _, c := range []struct {
		method, path string
		op           Op
		subject      string
	}{
		{"POST", "/v1/sessions", OpOpenSession, ""},
		{"POST", "/v1/sessions/s/heartbeat", OpHeartbeat, "s"},
		{"DELETE", "/v1/sessions/s", OpCloseSession, "s"},
		{"POST", "/v1/locks/payout%3Aa/acquire", OpAcquire, "payout%3Aa"},
		{"POST", "/v1/locks/k/renew", OpRenew, "k"},
		{"DELETE", "/v1/locks/k", OpRelease, "k"},
		{"GET", "/v1/locks/k", OpInspect, "k"},
		{"POST", "/v1/locks/k/revoke", OpRevoke, "k"},
		{"GET", "/v1/payouts", OpListPayouts, ""},
		{"POST", "/v1/payouts/p/claim", OpClaim, "p"},
		{"POST", "/v1/payouts/p/post", OpPost, "p"},
		{"GET", "/v1/payouts/p", OpGetPayout, "p"},
		{"GET", "/v1/accounts/a", OpGetAccount, "a"},
		{"POST", "/v1/payouts/p/submitted", OpSubmitted, "p"},
		{"POST", "/v1/payouts/p/outcome", OpOutcome, "p"},
		{"POST", "/v1/payouts/p/resolve", OpResolve, "p"},
		{"POST", "/v1/rail/submissions", OpSubmit, ""},
		{"POST", "/submit", OpTransfer, ""},
		{"GET", "/transfers", OpLookup, ""},
		// A key may hold anything, percent-encoded, even the words of other paths.
		{"POST", "/v1/locks/a%2Facquire/renew", OpRenew, "a%2Facquire"},
		{"POST", "/v1/locks/acquire/acquire", OpAcquire, "acquire"},
		// None of the contract's.
		{"GET", "/v1/sessions", OpUnknown, ""}, {"GET", "/submit", OpUnknown, ""}, {"POST", "/transfers", OpUnknown, ""},
		{"PUT", "/v1/locks/k/acquire", OpUnknown, ""}, {"POST", "/v1/locks/k/acquire/", OpUnknown, ""}, {"POST", "/v1/locks/a/b/acquire", OpUnknown, ""},
		{"POST", "/v2/payouts/p/claim", OpUnknown, ""}, {"POST", "/v1/rail/others", OpUnknown, ""}, {"GET", "/", OpUnknown, ""}, {"", "", OpUnknown, ""},
		{"DELETE", "/v1/payouts/p", OpUnknown, ""}, {"GET", "/v1/accounts", OpUnknown, ""}, {"post", "/v1/sessions", OpUnknown, ""},
	} {
		if op, subject := Classify(c.method, c.path); op != c.op || subject != c.subject {
			t.Errorf("%s %s is %s of %q, want %s of %q", c.method, c.path, op, subject, c.op, c.subject)
		}
	}
}

func TestOnlyWritesAreFencedAndReadsAreNone(t *testing.T) {
	fenced := map[Op]bool{OpClaim: true, OpPost: true, OpSubmitted: true, OpOutcome: true, OpResolve: true, OpSubmit: true}
	reads := map[Op]bool{OpInspect: true, OpListPayouts: true, OpGetPayout: true, OpGetAccount: true, OpLookup: true}
	for _, op := range []Op{OpOpenSession, OpHeartbeat, OpCloseSession, OpAcquire, OpRenew, OpRelease, OpInspect, OpRevoke, OpListPayouts, OpClaim,
		OpPost, OpGetPayout, OpGetAccount, OpSubmitted, OpOutcome, OpResolve, OpSubmit, OpTransfer, OpLookup, OpUnknown} {
		if op.Fenced() != fenced[op] || op.Read() != reads[op] || op.AtPayment() != (fenced[op] && op != OpSubmit) {
			t.Errorf("%s: fenced %v, at payment %v, read %v", op, op.Fenced(), op.AtPayment(), op.Read())
		}
	}
}

func TestALinksNameIsReadBack(t *testing.T) {
	for _, text := range []string{"executor-2→rail-proxy", "executor-2->rail-proxy"} {
		if l, err := ParseLink(text); err != nil || l != (Link{Executor(2), RailProxy}) || l.String() != "executor-2→rail-proxy" {
			t.Errorf("%s: %v, %v", text, l, err)
		}
	}
	for _, text := range []string{"", "executor-2", "→rail-proxy", "executor-2→", "executor-2-rail-proxy"} {
		if l, err := ParseLink(text); err == nil {
			t.Errorf("%q is the link %v", text, l)
		}
	}
}

func TestExecutorsAreNumberedFromOne(t *testing.T) {
	for p, want := range map[Process]bool{Executor(1): true, Executor(12): true, "executor-0": false, "executor--1": false, "executor-": false, "executor-x": false, RailProxy: false} {
		if p.IsExecutor() != want {
			t.Errorf("%s: %v", p, !want)
		}
	}
}

func TestOnlyThreeStatesAreTerminal(t *testing.T) {
	terminal := map[State]bool{Posted: true, Failed: true, Abandoned: true}
	for _, s := range []State{Pending, Claimed, RailSubmitted, RailAcked, RailAmbiguous, Posted, Failed, Abandoned, ""} {
		if s.Terminal() != terminal[s] {
			t.Errorf("%s: %v", s, s.Terminal())
		}
	}
}
