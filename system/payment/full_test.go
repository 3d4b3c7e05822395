package payment_test

import (
	"strings"
	"testing"

	"fenceproof/deploy/postgres/postgrestest"
)

func TestAPaydbThatCannotTakeConnectionsIsAnOutageWhateverItsReason(t *testing.T) {
	b := newBenchOn(t, strings.Replace(paydbURL, server.Address(), postgrestest.Refusing(t), 1), true)
	p := "0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11"
	for verb, body := range writes {
		b.want(b.send(request{payout: p, verb: verb, body: body, token: 41}), 503, "STORE_UNAVAILABLE")
	}
	for _, path := range []string{"/v1/payouts", "/v1/payouts/" + p, "/v1/accounts/" + p} {
		b.want(b.get(path), 503, "STORE_UNAVAILABLE")
	}
}
