package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"fenceproof/system/wire"
)

// transfer is money moved, as the rail's look-up shows it.
type transfer struct {
	RailReference string `json:"railReference"`
	ClientRef     string `json:"clientRef"`
	AmountMinor   int64  `json:"amountMinor"`
	Currency      string `json:"currency"`
}

// rail is the look-up of the rail, and nothing else of it: a reconciler never submits.
type rail struct {
	*wire.Client
	timeout time.Duration
}

// transfers is S2: the money moved for one payout, as far as the look-up's lag lets it be seen. An answer that does not
// list transfers of this payout, and of nothing else, is no evidence of anything and an error.
func (r rail) transfers(ctx context.Context, payoutID string) ([]transfer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var out struct {
		Transfers []transfer `json:"transfers"`
	}
	err := r.Do(ctx, wire.Call{Method: http.MethodGet, Path: "/transfers?" + url.Values{"clientRef": {payoutID}}.Encode()}, &out)
	if err == nil {
		err = check(out.Transfers, payoutID)
	}
	if err != nil {
		return nil, fmt.Errorf("look payout %s up at the rail: %w", payoutID, err)
	}
	return out.Transfers, nil
}

func check(found []transfer, payoutID string) error {
	if found == nil {
		return errors.New("the answer has no list of transfers")
	}
	for _, t := range found {
		switch {
		case t.ClientRef != payoutID:
			return fmt.Errorf("the answer shows a transfer of %q", t.ClientRef)
		case t.RailReference == "":
			return errors.New("the answer shows a transfer without a reference")
		}
	}
	return nil
}
