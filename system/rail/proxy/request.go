package proxy

import (
	"net/http"
	"regexp"

	"fenceproof/system/wire"
)

// Limits of a request's texts, in bytes.
const (
	maxOwner       = 64
	maxIdempotency = 128
	maxBeneficiary = 128
)

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// request is R1: the body, and what its headers say.
type request struct {
	PayoutID       string `json:"payoutId"`
	AccountID      string `json:"accountId"`
	AmountMinor    int64  `json:"amountMinor"`
	Currency       string `json:"currency"`
	BeneficiaryRef string `json:"beneficiaryRef"`

	owner, idempotency string
	token              int64
}

// read takes R1 apart; the error is the 400 that names what is wrong.
func read(w http.ResponseWriter, r *http.Request) (request, error) {
	var in request
	var err error
	if in.owner, err = wire.Header(r, wire.HeaderOwner, maxOwner); err != nil {
		return in, err
	}
	if in.token, err = wire.Token(r); err != nil {
		return in, err
	}
	if in.idempotency, err = wire.Header(r, wire.HeaderIdempotency, maxIdempotency); err != nil {
		return in, err
	}
	if err := wire.Decode(w, r, &in); err != nil {
		return in, err
	}
	return in, in.check()
}

func (r request) check() error {
	switch {
	case !wire.IsID(r.PayoutID):
		return wire.NewError(wire.InvalidRequest, `field "payoutId" is %.64q and must be a UUID in lower case`, r.PayoutID)
	case !wire.IsID(r.AccountID):
		return wire.NewError(wire.InvalidRequest, `field "accountId" is %.64q and must be a UUID in lower case`, r.AccountID)
	case r.AmountMinor <= 0:
		return wire.NewError(wire.InvalidRequest, `field "amountMinor" is %d and must be positive`, r.AmountMinor)
	case !currency.MatchString(r.Currency):
		return wire.NewError(wire.InvalidRequest, `field "currency" is %.64q and must be three capital letters`, r.Currency)
	case r.BeneficiaryRef == "" || len(r.BeneficiaryRef) > maxBeneficiary:
		return wire.NewError(wire.InvalidRequest, `field "beneficiaryRef" has %d bytes and needs 1 to %d`, len(r.BeneficiaryRef), maxBeneficiary)
	}
	return nil
}
