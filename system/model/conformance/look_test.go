package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"fenceproof/system/model"
	"fenceproof/system/wire"
)

// look compares what P4 and P5 show, which is what a holder decides by, with the model.
func (u *subject) look(ctx context.Context, payout int) error {
	got, err := u.shown(ctx, payout)
	if err != nil {
		return err
	}
	if want := u.toShow(payout); got != want {
		return fmt.Errorf("a look at P%d shows\n%s\nand the model says\n%s", payout, got, want)
	}
	return nil
}

func (u *subject) shown(ctx context.Context, payout int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var p struct {
		State        string
		ClaimToken   int64
		AttemptCount int
		Submissions  []struct {
			PresentedToken int64
			Outcome        string
		}
		Resolution *struct{ Outcome string }
	}
	var a struct{ BalanceMinor, Fence, LedgerSumMinor int64 }
	if err := u.payment[0].Do(ctx, wire.Call{Method: http.MethodGet, Path: "/v1/payouts/" + u.payouts[payout]}, &p); err != nil {
		return "", err
	}
	if err := u.payment[0].Do(ctx, wire.Call{Method: http.MethodGet, Path: "/v1/accounts/" + u.account}, &a); err != nil {
		return "", err
	}
	var attempts []string
	fenced := 0
	for _, s := range p.Submissions {
		switch s.Outcome {
		case "FENCED":
			fenced++
		case "":
			attempts = append(attempts, fmt.Sprintf("%v by %d", model.Open, s.PresentedToken))
		default:
			attempts = append(attempts, fmt.Sprintf("%s by %d", s.Outcome, s.PresentedToken))
		}
	}
	slices.Sort(attempts)
	resolution := model.NoFinding.String()
	if p.Resolution != nil {
		resolution = p.Resolution.Outcome
	}
	return fmt.Sprintf("%s claim %d claims %d attempts [%s] fenced %d resolution %s balance %d fence %d ledger %d", p.State, p.ClaimToken,
		p.AttemptCount, strings.Join(attempts, ", "), fenced, resolution, a.BalanceMinor, a.Fence, a.LedgerSumMinor), nil
}

func (u *subject) toShow(payout int) string {
	s := u.model.State
	p, n := s.Payouts[payout], u.model.Notes[payout]
	attempt := ""
	if p.Attempt != model.NoFinding {
		attempt = fmt.Sprintf("%v by %d", p.Attempt, u.token(n.AttemptToken))
	}
	posted := int64(0)
	for i := range s.Payouts {
		if u.model.Notes[i].LegToken > 0 {
			posted += u.amount(i)
		}
	}
	return fmt.Sprintf("%v claim %d claims %d attempts [%s] fenced %d resolution %v balance %d fence %d ledger %d", p.State, u.claimNumber(p.Claim),
		n.Claims, attempt, n.Fenced, n.Resolution, unit*int64(s.Balance), u.token(s.Fence), -posted)
}
