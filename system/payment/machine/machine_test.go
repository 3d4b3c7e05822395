package machine_test

import (
	"testing"

	"fenceproof/system/payment/machine"

	"pgregory.net/rapid"
)

// transitions is the contract's table of states, written out once more: what is not here is refused.
var transitions = []struct {
	from    machine.State
	command machine.Command
	to      machine.State
}{
	{machine.Pending, machine.Command{Operation: machine.Claim, Expected: machine.Pending}, machine.Claimed},
	{machine.Claimed, machine.Command{Operation: machine.Claim, Expected: machine.Claimed}, machine.Claimed},
	{machine.RailSubmitted, machine.Command{Operation: machine.Claim, Expected: machine.RailSubmitted}, machine.RailSubmitted},
	{machine.RailAcked, machine.Command{Operation: machine.Claim, Expected: machine.RailAcked}, machine.RailAcked},
	{machine.Claimed, machine.Command{Operation: machine.Submitted}, machine.RailSubmitted},
	{machine.RailSubmitted, machine.Command{Operation: machine.Outcome, Finding: machine.Acked}, machine.RailAcked},
	{machine.RailSubmitted, machine.Command{Operation: machine.Outcome, Finding: machine.Rejected}, machine.Failed},
	{machine.RailSubmitted, machine.Command{Operation: machine.Outcome, Finding: machine.Timeout}, machine.RailAmbiguous},
	{machine.RailAcked, machine.Command{Operation: machine.Post}, machine.Posted},
	{machine.RailAmbiguous, machine.Command{Operation: machine.Resolve, Finding: machine.Acked}, machine.RailAcked},
	{machine.RailAmbiguous, machine.Command{Operation: machine.Resolve, Finding: machine.Absent}, machine.Failed},
	{machine.RailAmbiguous, machine.Command{Operation: machine.Resolve, Finding: machine.Operator}, machine.Abandoned},
	{machine.Pending, machine.Command{Operation: machine.Resolve, Finding: machine.Operator}, machine.Abandoned},
}

// commands are all that can be asked, well meant or not.
func commands() []machine.Command {
	var all []machine.Command
	for _, s := range machine.States() {
		all = append(all, machine.Command{Operation: machine.Claim, Expected: s})
	}
	for _, f := range []machine.Finding{"", machine.Acked, machine.Rejected, machine.Timeout, machine.Absent, machine.Operator} {
		all = append(all, machine.Command{Operation: machine.Outcome, Finding: f}, machine.Command{Operation: machine.Resolve, Finding: f})
	}
	return append(all, machine.Command{Operation: machine.Submitted}, machine.Command{Operation: machine.Post}, machine.Command{Operation: "other"})
}

// rich is a payout of 100 on an account that can afford it, behind fence 40 and claimed under the given token.
func rich(s machine.State, claimToken int64) machine.Facts {
	return machine.Facts{State: s, ClaimToken: claimToken, Amount: 100, Currency: "EUR", Fence: 40, Balance: 1000, AccountCurrency: "EUR"}
}

func TestOnlyTheTransitionsOfTheTableOccur(t *testing.T) {
	for _, from := range machine.States() {
		for _, c := range commands() {
			c.Token = 42
			held := int64(42)
			if c.Operation == machine.Claim {
				held = 41 // a take-over needs a higher token than the payout's
			}
			want := machine.State("")
			for _, tr := range transitions {
				if tr.from == from && tr.command.Operation == c.Operation && tr.command.Expected == c.Expected && tr.command.Finding == c.Finding {
					want = tr.to
				}
			}
			d := machine.Judge(c, rich(from, held), true)
			if d.To != want {
				t.Errorf("%s %s%s from %s: to %q, want %q", c.Operation, c.Expected, c.Finding, from, d.To, want)
			}
			if (d.Reason == machine.None) != (want != "") {
				t.Errorf("%s %s%s from %s: reason %q with transition to %q", c.Operation, c.Expected, c.Finding, from, d.Reason, want)
			}
		}
	}
}

func TestTheOrderOfJudgementIsFencePostedClaimStateFunds(t *testing.T) {
	poor := func(f machine.Facts) machine.Facts { f.Balance = 0; return f }
	blocked := func(f machine.Facts) machine.Facts { f.Blocking = "another"; return f }
	claim := func(token int64, expected machine.State) machine.Command {
		return machine.Command{Operation: machine.Claim, Token: token, Expected: expected}
	}
	op := func(o machine.Operation, token int64) machine.Command {
		return machine.Command{Operation: o, Token: token, Finding: machine.Acked}
	}
	for _, tc := range []struct {
		name    string
		command machine.Command
		facts   machine.Facts
		want    machine.Decision
	}{
		{"the fence comes before a wrong state", op(machine.Submitted, 40), rich(machine.Posted, 41), machine.Decision{Reason: machine.FencedOut}},
		{"the fence shuts out its own token", op(machine.Post, 40), rich(machine.RailAcked, 40), machine.Decision{Reason: machine.FencedOut}},
		{"the fence comes before posted already", op(machine.Post, 39), rich(machine.Posted, 41), machine.Decision{Reason: machine.FencedOut}},
		{"the fence comes before missing funds", op(machine.Post, 40), poor(rich(machine.RailAcked, 40)), machine.Decision{Reason: machine.FencedOut}},
		{"a post finds the work done, whoever claims", op(machine.Post, 41), rich(machine.Posted, 50), machine.Decision{Reason: machine.AlreadyPosted}},
		{"a post finds the work done before funds", op(machine.Post, 41), poor(rich(machine.Posted, 41)), machine.Decision{Reason: machine.AlreadyPosted}},
		{"the claim comes before the state", op(machine.Outcome, 42), rich(machine.Claimed, 41), machine.Decision{Reason: machine.OtherClaim}},
		{"a post under a claim that is above it", op(machine.Post, 42), rich(machine.RailAcked, 43), machine.Decision{Reason: machine.OtherClaim}},
		{"a post under an older claim", op(machine.Post, 42), rich(machine.RailAcked, 41), machine.Decision{To: machine.Posted}},
		{"the state comes before funds", op(machine.Post, 42), poor(rich(machine.Claimed, 42)), machine.Decision{Reason: machine.WrongState}},
		{"a take-over by the same token", claim(42, machine.Claimed), rich(machine.Claimed, 42), machine.Decision{Reason: machine.OtherClaim}},
		{"a claim expects another state", claim(42, machine.Pending), rich(machine.Claimed, 41), machine.Decision{Reason: machine.WrongState}},
		{"a block comes before funds", claim(42, machine.Pending), blocked(poor(rich(machine.Pending, 0))), machine.Decision{Reason: machine.Blocked}},
		{"a take-over is never blocked", claim(42, machine.RailSubmitted), blocked(poor(rich(machine.RailSubmitted, 41))), machine.Decision{To: machine.RailSubmitted}},
		{"a claim without funds fails the payout", claim(42, machine.Pending), poor(rich(machine.Pending, 0)), machine.Decision{Reason: machine.NoFunds, To: machine.Failed}},
		{"a post without funds writes nothing", op(machine.Post, 42), poor(rich(machine.RailAcked, 42)), machine.Decision{Reason: machine.NoFunds}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := machine.Judge(tc.command, tc.facts, true); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestAvailableFundsAreWhatIsNotReservedInThePayoutsCurrency(t *testing.T) {
	claim := machine.Command{Operation: machine.Claim, Token: 42, Expected: machine.Pending}
	for _, tc := range []struct {
		name              string
		balance, reserved int64
		currency          string
		want              machine.State
	}{
		{"exactly enough", 100, 0, "EUR", machine.Claimed},
		{"one short", 99, 0, "EUR", machine.Failed},
		{"enough behind reservations", 300, 200, "EUR", machine.Claimed},
		{"reserved by others", 300, 201, "EUR", machine.Failed},
		{"more reserved than there is", 0, 1<<63 - 1, "EUR", machine.Failed},
		{"another currency", 1000, 0, "USD", machine.Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := rich(machine.Pending, 0)
			f.Balance, f.Reserved, f.AccountCurrency = tc.balance, tc.reserved, tc.currency
			if got := machine.Judge(claim, f, true).To; got != tc.want {
				t.Errorf("the claim leads to %s, want %s", got, tc.want)
			}
		})
	}
}

// With fencing off a token decides nothing, whatever it is; all else stays as it was.
func TestFencingOffForgetsTokensAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(commands()).Draw(t, "command")
		f := machine.Facts{
			State:           rapid.SampledFrom(machine.States()).Draw(t, "state"),
			ClaimToken:      rapid.Int64Range(0, 1<<63-1).Draw(t, "claim token"),
			Fence:           rapid.Int64Range(0, 1<<63-1).Draw(t, "fence"),
			Amount:          rapid.Int64Range(1, 300).Draw(t, "amount"),
			Balance:         rapid.Int64Range(0, 300).Draw(t, "balance"),
			Reserved:        rapid.Int64Range(0, 300).Draw(t, "reserved"),
			Blocking:        rapid.SampledFrom([]string{"", "another"}).Draw(t, "blocking"),
			Currency:        "EUR",
			AccountCurrency: rapid.SampledFrom([]string{"EUR", "USD"}).Draw(t, "currency"),
		}
		c.Token = rapid.Int64Range(1, 1<<63-1).Draw(t, "token")
		got := machine.Judge(c, f, false)

		// the same command by a token that fits everything, fencing on
		fit, free := c, f
		fit.Token, free.Fence, free.ClaimToken = 42, 0, 42
		if c.Operation == machine.Claim {
			free.ClaimToken = 0
		}
		if machine.FindsPosted(c, f) {
			free.State = machine.RailAcked // a posted payout is posted again
		}
		if want := machine.Judge(fit, free, true); got != want {
			t.Errorf("fencing off decides %+v, a fitting token with fencing on %+v", got, want)
		}
	})
}
