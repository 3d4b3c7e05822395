package payment

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"fenceproof/system/payment/machine"
	"fenceproof/system/wire"

	"github.com/jackc/pgx/v5"
)

// payoutRow is a payout as P1 lists it.
type payoutRow struct {
	PayoutID     string        `json:"payoutId"`
	AccountID    string        `json:"accountId"`
	AmountMinor  int64         `json:"amountMinor"`
	Currency     string        `json:"currency"`
	State        machine.State `json:"state"`
	ClaimedBy    *string       `json:"claimedBy,omitempty"`
	ClaimToken   *int64        `json:"claimToken,omitempty"`
	AttemptCount int           `json:"attemptCount"`
	CreatedAt    time.Time     `json:"createdAt"`
}

type payoutPage struct {
	Items      []payoutRow `json:"items"`
	NextCursor string      `json:"nextCursor,omitempty"`
}

// submission is a rail_submission row. Only the proxy writes them; outcome FENCED is an attempt that never left it.
type submission struct {
	SubmissionID   string     `json:"submissionId"`
	PresentedToken int64      `json:"presentedToken"`
	Outcome        *string    `json:"outcome,omitempty"` // absent while the attempt is open
	RailReference  *string    `json:"railReference,omitempty"`
	SubmittedAt    time.Time  `json:"submittedAt"`
	ResolvedAt     *time.Time `json:"resolvedAt,omitempty"`
}

// resolution is a payout_resolution row: on what evidence a payout left RAIL_AMBIGUOUS, or PENDING by an operator.
type resolution struct {
	Outcome       machine.Finding `json:"outcome"`
	RailReference *string         `json:"railReference,omitempty"`
	Evidence      string          `json:"evidence"`
	Operator      *string         `json:"operator,omitempty"`
	Reason        *string         `json:"reason,omitempty"`
	Token         int64           `json:"token"`
	CreatedAt     time.Time       `json:"createdAt"`
}

type payoutDetail struct {
	payoutRow
	IdempotencyKey string       `json:"idempotencyKey"`
	Submissions    []submission `json:"submissions"`
	Resolution     *resolution  `json:"resolution,omitempty"`
}

// accountDetail is P5's answer. LedgerSumMinor is Σ credits − Σ debits of the account's entries, so that
// balanceMinor = opening balance + ledgerSumMinor (INV-03).
type accountDetail struct {
	AccountID      string `json:"accountId"`
	Currency       string `json:"currency"`
	BalanceMinor   int64  `json:"balanceMinor"`
	Fence          int64  `json:"fence"`
	LedgerSumMinor int64  `json:"ledgerSumMinor"`
}

// page is what P1 asks for.
type page struct {
	states  []string // nil: all
	account *string
	after   *time.Time // with afterID, the last row of the page before
	afterID *string
	limit   int
}

const (
	defaultLimit = 100
	maxLimit     = 1000
)

func (a *API) listPayouts(ctx context.Context, r *http.Request) (any, error) {
	p, err := readPage(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	return a.store.list(ctx, p)
}

func (s *Store) list(ctx context.Context, p page) (payoutPage, error) {
	rows, err := s.pool.Query(ctx, p.statement(), p.states, p.account, p.after, p.afterID, p.limit+1)
	if err != nil {
		return payoutPage{}, failed("list payouts", err)
	}
	items, err := pgx.CollectRows(rows, pgx.RowToStructByPos[payoutRow])
	if err != nil {
		return payoutPage{}, failed("list payouts", err)
	}
	for i := range items {
		items[i].CreatedAt = items[i].CreatedAt.UTC()
	}
	if len(items) <= p.limit {
		return payoutPage{Items: items}, nil
	}
	items = items[:p.limit]
	return payoutPage{items, cursorAfter(items[p.limit-1])}, nil
}

// statement is the one that an index answers when only open states are asked for.
func (p page) statement() string {
	finished := func(s string) bool {
		return slices.Contains([]machine.State{machine.Posted, machine.Failed, machine.Abandoned}, machine.State(s))
	}
	if p.states == nil || slices.ContainsFunc(p.states, finished) {
		return sqlListPayouts
	}
	return sqlListOpenPayouts
}

func readPage(query string) (page, error) {
	p := page{limit: defaultLimit}
	q, err := url.ParseQuery(query)
	if err != nil {
		return p, wire.NewError(wire.InvalidRequest, "the query is not well formed")
	}
	for name, values := range q {
		if len(values) != 1 {
			return p, wire.NewError(wire.InvalidRequest, "query parameter %q is given %d times", name, len(values))
		}
		if err := p.set(name, values[0]); err != nil {
			return p, err
		}
	}
	return p, nil
}

// set reads one query parameter; an empty one says nothing.
func (p *page) set(name, v string) error {
	switch name {
	case "state", "accountId", "limit", "cursor":
	default:
		return wire.NewError(wire.InvalidRequest, "query parameter %q is not known here", name)
	}
	if v == "" {
		return nil
	}
	switch name {
	case "state":
		for s := range strings.SplitSeq(v, ",") {
			if !slices.Contains(machine.States(), machine.State(s)) {
				return wire.NewError(wire.InvalidRequest, "query parameter \"state\" has %q and takes some of %v", s, machine.States())
			}
			p.states = append(p.states, s)
		}
	case "accountId":
		p.account = &v
		return id("accountId", v)
	case "limit":
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxLimit || strconv.Itoa(n) != v {
			return wire.NewError(wire.InvalidRequest, "query parameter \"limit\" is %q and must be 1 to %d", v, maxLimit)
		}
		p.limit = n
	case "cursor":
		return p.setCursor(v)
	}
	return nil
}

// cursorAfter makes the cursor of the page that begins behind last. Clients must not read anything into it.
func cursorAfter(last payoutRow) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.CreatedAt.UnixMicro(), last.PayoutID))
}

func (p *page) setCursor(v string) error {
	b, err := base64.RawURLEncoding.DecodeString(v)
	micros, id, found := strings.Cut(string(b), " ")
	n, err2 := strconv.ParseInt(micros, 10, 64)
	if err != nil || err2 != nil || !found || !wire.IsID(id) || strconv.FormatInt(n, 10) != micros || n < 0 || n > maxCursorMicros {
		return wire.NewError(wire.InvalidRequest, "query parameter \"cursor\" is none that this list gave")
	}
	t := time.UnixMicro(n).UTC()
	p.after, p.afterID = &t, &id
	return nil
}

// maxCursorMicros is the year 9999: PostgreSQL could hold more, no payout is younger.
const maxCursorMicros = 253402300799999999

func (a *API) getPayout(ctx context.Context, r *http.Request) (any, error) {
	id, err := pathID(r)
	if err != nil {
		return nil, err
	}
	return a.store.payout(ctx, id)
}

// payout reads a payout with its submissions and resolution as of one moment.
func (s *Store) payout(ctx context.Context, payoutID string) (payoutDetail, error) {
	var p payoutDetail
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return p.read(ctx, tx, payoutID)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return p, errNotFound
	}
	if err != nil {
		return p, failed("read the payout", err)
	}
	p.CreatedAt = p.CreatedAt.UTC()
	for i := range p.Submissions {
		p.Submissions[i].SubmittedAt = p.Submissions[i].SubmittedAt.UTC()
		if at := p.Submissions[i].ResolvedAt; at != nil {
			*at = at.UTC()
		}
	}
	return p, nil
}

func (p *payoutDetail) read(ctx context.Context, tx pgx.Tx, payoutID string) error {
	b := &pgx.Batch{}
	b.Queue(sqlGetPayout, payoutID).QueryRow(func(row pgx.Row) error {
		return row.Scan(&p.PayoutID, &p.AccountID, &p.AmountMinor, &p.Currency, &p.State, &p.ClaimedBy, &p.ClaimToken, &p.AttemptCount,
			&p.CreatedAt, &p.IdempotencyKey)
	})
	b.Queue(sqlGetSubmissions, payoutID).Query(func(rows pgx.Rows) (err error) {
		p.Submissions, err = pgx.CollectRows(rows, pgx.RowToStructByPos[submission])
		return err
	})
	b.Queue(sqlGetResolution, payoutID).QueryRow(func(row pgx.Row) error {
		var r resolution
		err := row.Scan(&r.Outcome, &r.RailReference, &r.Evidence, &r.Operator, &r.Reason, &r.Token, &r.CreatedAt)
		if err == nil {
			r.CreatedAt = r.CreatedAt.UTC()
			p.Resolution = &r
		}
		return unlessNone(err)
	})
	return tx.SendBatch(ctx, b).Close()
}

func (a *API) getAccount(ctx context.Context, r *http.Request) (any, error) {
	id, err := pathID(r)
	if err != nil {
		return nil, err
	}
	var v accountDetail
	err = a.store.pool.QueryRow(ctx, sqlGetAccount, id).Scan(&v.AccountID, &v.Currency, &v.BalanceMinor, &v.Fence, &v.LedgerSumMinor)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, failed("read the account", err)
	}
	return v, nil
}
