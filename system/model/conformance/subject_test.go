package conformance

import (
	"context"
	"fmt"
	"strings"

	"fenceproof/system/model"
	"fenceproof/system/payment"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// unit is what one unit of the model's money is here, in minor units.
const unit = 50

// subject is one account in paydb with its payouts, and the model's view of it.
type subject struct {
	*services
	model    *model.Reference
	base     int64 // what is added to the model's tokens
	account  string
	payouts  [model.Payouts]string
	arrivals [model.Payouts]<-chan *call

	told  map[model.Request]string // what was answered to the requests that took effect
	calls []*submission            // submissions on their way to the rail, whose senders or zombies go on
	lost  []*submission            // those whose proxy the model lets die; the end of the schedule ends them
}

// admit puts the model's state into paydb.
func (s *services) admit(ctx context.Context, r *model.Reference, base int64) (*subject, error) {
	u := &subject{services: s, model: r, base: base, account: uuid.NewString(), told: map[model.Request]string{}}
	for i := range u.payouts {
		u.payouts[i] = uuid.NewString()
		u.arrivals[i] = s.gate.expect(u.payouts[i])
	}
	b := &pgx.Batch{}
	books := r.State.Books
	b.Queue(`INSERT INTO account (account_id, currency, balance_minor, fence) VALUES ($1, 'EUR', $2, $3)`,
		u.account, unit*int64(books.Balance), u.token(books.Fence))
	if mark := u.token(books.Mark); mark > 0 {
		b.Queue(`INSERT INTO rail_high_water (account_id, highest_token) VALUES ($1, $2)`, u.account, mark)
	}
	for i := range u.payouts {
		u.admitPayout(b, i)
	}
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("put the account into paydb: %w", err)
	}
	return u, nil
}

func (u *subject) admitPayout(b *pgx.Batch, i int) {
	p, n := u.model.State.Payouts[i], u.model.Notes[i]
	id, amount := u.payouts[i], u.amount(i)
	var owner, token *string
	if p.Claim > 0 {
		o, t := u.owner(p.Claim), fmt.Sprint(u.token(p.Claim))
		owner, token = &o, &t
	}
	b.Queue(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, state, claimed_by, claim_token, idempotency_key, attempt_count)
		VALUES ($1, $2, $3, 'EUR', $4, $5, $6::text::bigint, $7, $8)`, id, u.account, amount, p.State.String(), owner, token, "payout-"+id, n.Claims)
	if p.Attempt != model.NoFinding {
		b.Queue(`INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at)
			VALUES ($1, $2, $3, $4, nullif($5, 'OPEN'), CASE WHEN $5 <> 'OPEN' THEN now() END)`,
			uuid.NewString(), id, "payout-"+id, u.token(n.AttemptToken), p.Attempt.String())
	}
	if p.Debited > 0 {
		clearing := payment.ClearingAccount(uuid.MustParse(u.account), "EUR").String()
		b.Queue(`INSERT INTO account (account_id, currency) VALUES ($1, 'EUR') ON CONFLICT DO NOTHING`, clearing)
		b.Queue(`INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
			VALUES (gen_random_uuid(), $1, $2, 'DEBIT', $4, $5), (gen_random_uuid(), $1, $3, 'CREDIT', $4, $5)`,
			id, u.account, clearing, amount, u.token(n.LegToken))
	}
}

// token is the real token, fence or mark of a model's.
func (u *subject) token(t model.Token) int64 { return u.base + int64(t) }

// owner is who holds the grant of a token.
func (u *subject) owner(t model.Token) string { return fmt.Sprintf("executor-%d", t) }

func (u *subject) amount(payout int) int64 { return unit * int64(u.model.Protocol.Amounts[payout]) }

// claim shows a claim token as the tables do.
func (u *subject) claim(t model.Token) string {
	if t == 0 {
		return "none"
	}
	return fmt.Sprintf("%d by %s", u.token(t), u.owner(t))
}

// books is one text of everything that requests can change, read from paydb in one statement.
const books = `
SELECT concat('balance ', a.balance_minor, ' fence ', a.fence, ' mark ',
              coalesce((SELECT highest_token FROM rail_high_water m WHERE m.account_id = a.account_id), 0)) ||
       (SELECT string_agg(E'\n' || concat('P', n - 1, ' ', p.state, ' claim ', coalesce(p.claim_token || ' by ' || p.claimed_by, 'none'),
               ' claims ', p.attempt_count, ' answers ', (SELECT count(*) FROM payout_response r WHERE r.payout_id = p.payout_id),
               ' attempt ', coalesce((SELECT string_agg(coalesce(s.outcome, 'OPEN') || ' by ' || s.presented_token, ',')
                                        FROM rail_submission s WHERE s.payout_id = p.payout_id AND s.outcome IS DISTINCT FROM 'FENCED'), 'none'),
               ' fenced ', (SELECT count(*) FROM rail_submission s WHERE s.payout_id = p.payout_id AND s.outcome = 'FENCED'),
               ' legs ', coalesce((SELECT string_agg(concat(e.direction, ' ', e.amount_minor, ' by ', e.fence, CASE WHEN (e.account_id = a.account_id) <> (e.direction = 'DEBIT') THEN ' misplaced' END), ',' ORDER BY e.direction DESC)
                                     FROM ledger_entry e WHERE e.payout_id = p.payout_id), 'none'),
               ' resolution ', coalesce((SELECT r.outcome || ' by ' || r.token FROM payout_resolution r WHERE r.payout_id = p.payout_id), 'none')), '' ORDER BY n)
          FROM unnest($2::uuid[]) WITH ORDINALITY AS q (id, n) JOIN payout p ON p.payout_id = q.id)
  FROM account a
 WHERE a.account_id = $1`

// observed is what paydb and the rail's journal hold.
func (u *subject) observed(ctx context.Context) (string, error) {
	var text string
	if err := db.QueryRow(ctx, books, u.account, u.payouts[:]).Scan(&text); err != nil {
		return "", fmt.Errorf("read the books: %w", err)
	}
	return text + "\n" + u.movedText(func(i int) int { return len(u.gate.moved.Find(u.payouts[i], 0)) }), nil
}

// predicted is what the model says they hold.
func (u *subject) predicted() string {
	var b strings.Builder
	s := u.model.State
	fmt.Fprintf(&b, "balance %d fence %d mark %d", unit*int64(s.Balance), u.token(s.Fence), u.token(s.Mark))
	for i, p := range s.Payouts {
		n := u.model.Notes[i]
		attempt, legs, resolution := "none", "none", "none"
		if p.Attempt != model.NoFinding {
			attempt = fmt.Sprintf("%v by %d", p.Attempt, u.token(n.AttemptToken))
		}
		if n.LegToken > 0 {
			legs = fmt.Sprintf("DEBIT %[1]d by %[2]d,CREDIT %[1]d by %[2]d", u.amount(i), u.token(n.LegToken))
		}
		if n.Resolution != model.NoFinding {
			resolution = fmt.Sprintf("%v by %d", n.Resolution, u.token(n.ResolvedBy))
		}
		fmt.Fprintf(&b, "\nP%d %v claim %s claims %d answers %d attempt %s fenced %d legs %s resolution %s",
			i, p.State, u.claim(p.Claim), n.Claims, u.model.Answers(i), attempt, n.Fenced, legs, resolution)
	}
	return b.String() + "\n" + u.movedText(func(i int) int { return int(s.Payouts[i].Moved) })
}

func (u *subject) movedText(moved func(payout int) int) string {
	return fmt.Sprintf("moved %d and %d times", moved(0), moved(1))
}

// compare wants the books to be what the model says.
func (u *subject) compare(ctx context.Context) error {
	got, err := u.observed(ctx)
	if err != nil {
		return err
	}
	if want := u.predicted(); got != want {
		return fmt.Errorf("the books hold\n%s\nand the model says\n%s", got, want)
	}
	return nil
}
