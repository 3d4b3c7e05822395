// Package paymentclient is what every worker needs of payment-resource's API: the list of payouts, and the form of a
// protected call. What a worker sends and why is its own business.
package paymentclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fenceproof/system/payment/machine"
	"fenceproof/system/wire"
)

// Payout is an element of P1's answer, as far as workers read it.
type Payout struct {
	PayoutID    string        `json:"payoutId"`
	AccountID   string        `json:"accountId"`
	AmountMinor int64         `json:"amountMinor"` // minor units, > 0
	Currency    string        `json:"currency"`    // ISO 4217
	State       machine.State `json:"state"`
}

// Page is P1's answer.
type Page struct {
	Items      []Payout `json:"items"`
	NextCursor string   `json:"nextCursor"` // "" on the last page
}

// Query says which payouts to list.
type Query struct {
	States    []machine.State
	AccountID string // "" for all accounts
	Cursor    string // NextCursor of the page before; "" for the first page
	Limit     int    // payouts per page, 1 to 1000
}

// Client calls one payment-resource. It sends every request at most once.
type Client struct {
	*wire.Client
	timeout time.Duration
}

// New makes a client of the server at base. perHost bounds the idle connections kept; timeout bounds a List.
func New(base string, perHost int, timeout time.Duration) *Client {
	return &Client{wire.NewClient(base, perHost), timeout}
}

// List is P1.
func (c *Client) List(ctx context.Context, q Query) (Page, error) {
	names := make([]string, len(q.States))
	for i, s := range q.States {
		names[i] = string(s)
	}
	values := url.Values{"limit": {strconv.Itoa(q.Limit)}, "state": {strings.Join(names, ",")}}
	if q.AccountID != "" {
		values.Set("accountId", q.AccountID)
	}
	if q.Cursor != "" {
		values.Set("cursor", q.Cursor)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var p Page
	if err := c.Do(ctx, wire.Call{Method: http.MethodGet, Path: "/v1/payouts?" + values.Encode()}, &p); err != nil {
		return Page{}, fmt.Errorf("list payouts: %w", err)
	}
	return p, nil
}

// LockKey is the lock under which everybody works on an account's payouts.
func LockKey(accountID string) string { return "payout:" + accountID }

// Protected is a call that changes a payout (P2, P3, P6 to P8), under the holder's name and token.
func Protected(verb, payoutID, owner string, token int64, body any) wire.Call {
	return wire.Call{Method: http.MethodPost, Path: "/v1/payouts/" + payoutID + "/" + verb, Owner: owner, Token: token,
		Idempotency: IdempotencyKey(payoutID), Body: body}
}

// IdempotencyKey is the payout's, stable for its whole life.
func IdempotencyKey(payoutID string) string { return "payout-" + payoutID }
