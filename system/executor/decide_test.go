package executor

import (
	"fmt"
	"slices"
	"testing"

	"fenceproof/system/payment/machine"
	"fenceproof/system/payment/paymentclient"
	"fenceproof/system/wire"
)

// attempts are all records that a payout can have.
var attempts = map[string]*record{
	"none":     nil,
	"open":     {SubmissionID: "s"},
	"ACKED":    {SubmissionID: "s", Outcome: "ACKED", RailReference: "r"},
	"REJECTED": {SubmissionID: "s", Outcome: "REJECTED"},
	"TIMEOUT":  {SubmissionID: "s", Outcome: "TIMEOUT"},
}

func TestNothingIsDoneWithAPayoutBeforeItIsClaimedAndNothingWithOneThatIsOver(t *testing.T) {
	for _, s := range machine.States() {
		want := stop
		if slices.Contains(open, s) {
			want = claim
		}
		for name, r := range attempts {
			if got := next(situation{state: s, looked: true, record: r, reference: "r"}); got != want {
				t.Errorf("%s unclaimed with record %s: %s, want %s", s, name, got, want)
			}
		}
	}
}

func TestStateAndRecordDecideWhatAHolderDoes(t *testing.T) {
	for _, c := range []struct {
		state  machine.State
		looked bool
		record string
		want   step
		report machine.Finding
	}{
		{machine.Claimed, true, "none", submitted, ""},
		{machine.RailSubmitted, false, "none", look, ""},
		{machine.RailSubmitted, true, "none", submit, ""},
		{machine.RailSubmitted, true, "open", report, machine.Timeout},
		{machine.RailSubmitted, true, "TIMEOUT", report, machine.Timeout},
		{machine.RailSubmitted, true, "ACKED", report, machine.Acked},
		{machine.RailSubmitted, true, "REJECTED", report, machine.Rejected},
		{machine.RailAcked, false, "none", look, ""},
		{machine.RailAcked, true, "ACKED", post, ""},
		{machine.RailAcked, true, "none", stop, ""},
		{machine.RailAcked, true, "open", stop, ""}, // resolved without a reference: nothing to post under
		{machine.RailAmbiguous, true, "TIMEOUT", stop, ""},
		{machine.Posted, true, "ACKED", stop, ""},
		{machine.Failed, true, "REJECTED", stop, ""},
		{machine.Abandoned, true, "TIMEOUT", stop, ""},
	} {
		s := situation{state: c.state, claimed: true, looked: c.looked, record: attempts[c.record]}
		if s.record != nil {
			s.reference = s.record.RailReference
		}
		if got := next(s); got != c.want {
			t.Errorf("%s, record %s, looked %v: %s, want %s", c.state, c.record, c.looked, got, c.want)
		}
		if c.report != "" && s.record.finding() != c.report {
			t.Errorf("record %s is reported as %s, want %s", c.record, s.record.finding(), c.report)
		}
	}
}

func TestAResolvedPayoutIsPostedUnderTheReferenceThatTheLookUpFound(t *testing.T) {
	s := situation{state: machine.RailAcked, claimed: true}.after(look, answer{record: attempts["TIMEOUT"], reference: "found"})
	if got := next(s); got != post {
		t.Fatalf("next is %s, want post", got)
	}
	body := services{payments: &paymentclient.Client{}}.request(post, paymentclient.Payout{}, s, "executor-1", 7).call.Body.(map[string]any)
	if body["railReference"] != "found" || body["submissionId"] != "s" {
		t.Errorf("posts %v", body)
	}
}

// walk follows a payout from state to the end of a pass in which every call is answered, and lists the steps.
func walk(state machine.State, recorded *record, submission answer) (steps []step) {
	s := situation{state: state}
	for range maxSteps + 1 {
		todo := next(s)
		if todo == stop {
			return steps
		}
		steps = append(steps, todo)
		var a answer
		switch todo {
		case claim:
			a.state = state
			if state == machine.Pending {
				a.state = machine.Claimed
			}
		case look:
			a.record = recorded
			if recorded != nil {
				a.reference = recorded.RailReference
			}
		case submitted:
			a.state = machine.RailSubmitted
		case submit:
			a = submission
		case report:
			a.state = map[machine.Finding]machine.State{machine.Acked: machine.RailAcked, machine.Rejected: machine.Failed,
				machine.Timeout: machine.RailAmbiguous}[s.record.finding()]
		case post:
			a.state = machine.Posted
		}
		s = s.after(todo, a)
	}
	return append(steps, "and so on")
}

func TestAPassGoesOneWayAndSubmitsAtMostOnceAndNeverWithARecord(t *testing.T) {
	for name, r := range attempts {
		if r == nil {
			continue
		}
		ending := map[string][]step{"ACKED": {report, post}, "REJECTED": {report}, "TIMEOUT": {report}, "open": {report}}[name]
		answered := answer{record: r, reference: r.RailReference}
		for _, c := range []struct {
			from     machine.State
			recorded *record
			want     []step
		}{
			{machine.Pending, nil, append([]step{claim, submitted, submit}, ending...)},
			{machine.Claimed, nil, append([]step{claim, submitted, submit}, ending...)},
			{machine.RailSubmitted, nil, append([]step{claim, look, submit}, ending...)},
			{machine.RailSubmitted, r, append([]step{claim, look}, ending...)},
		} {
			if got := walk(c.from, c.recorded, answered); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("from %s, record %v, submission %s: %v, want %v", c.from, c.recorded, name, got, c.want)
			}
		}
	}
	if got, want := walk(machine.RailAcked, attempts["ACKED"], answer{}), []step{claim, look, post}; !slices.Equal(got, want) {
		t.Errorf("from RAIL_ACKED: %v, want %v", got, want)
	}
}

func TestARefusalOfTheProxyIsAnAnswerOnlyWhereItSaysWhatBecameOfTheAttempt(t *testing.T) {
	for _, c := range []struct {
		code   wire.Code
		isDone bool
		want   machine.Finding
	}{
		{wire.Rejected, true, machine.Rejected},
		{wire.RailAmbiguous, true, machine.Timeout},
		{wire.FencedOut, false, ""},
		{wire.RailUnavailable, false, ""},
		{wire.InvalidRequest, false, ""},
		{wire.NotFound, false, ""},
		{"INTERNAL", false, ""},
	} {
		a, err := submission(&record{}, wire.NewError(c.code, "no"))
		if (err == nil) != c.isDone || (c.isDone && a.record.finding() != c.want) {
			t.Errorf("%s: %+v, %v", c.code, a.record, err)
		}
	}
	if _, err := submission(&record{}, fmt.Errorf("connection reset")); err == nil {
		t.Error("no answer was taken for one")
	}
	if _, err := submission(&record{}, wire.NewError(wire.DuplicateSubmission, "without details")); err == nil {
		t.Error("a duplicate without its record was taken for an answer")
	}
}

func TestAStoppedPassIsCountedByWhatStoppedIt(t *testing.T) {
	for _, c := range []struct {
		did  step
		err  error
		want result
	}{
		{claim, wire.NewError(wire.FencedOut, ""), resultFenced},
		{submit, wire.NewError(wire.FencedOut, ""), resultFenced},
		{claim, wire.NewError(wire.InsufficientFunds, ""), resultFailed},
		{post, wire.NewError(wire.InsufficientFunds, ""), resultRefused},
		{claim, wire.NewError(wire.PayoutNotClaimable, ""), resultRefused},
		{submitted, wire.NewError(wire.StoreUnavailable, ""), resultUnknown},
		{submit, wire.NewError(wire.RailUnavailable, ""), resultUnknown},
		{submit, fmt.Errorf("reset"), resultUnknown},
		{post, wire.NewError("INTERNAL", ""), resultUnknown},
		{post, &leaseError{fmt.Errorf("short")}, resultStopped},
		{post, errStopping, resultStopped},
	} {
		if got := stopped(quiet, c.did, c.err); got != c.want {
			t.Errorf("%s after %v: %s, want %s", c.did, c.err, got, c.want)
		}
	}
}
