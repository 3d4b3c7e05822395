package payment_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"fenceproof/system/payment"
)

// A cutter stands between payment-resource and paydb and cuts the connection at its next COMMIT.
type cutter struct {
	address string
	mode    atomic.Int32
	wg      sync.WaitGroup
}

const (
	pass      = iota
	cutBefore // the COMMIT never reaches paydb
	cutAfter  // paydb commits, and its answer is lost
)

// commitMessage is the end of COMMIT's message, from the last byte of its length on: a connection's settings have the
// word in them as well.
const commitMessage = "\x0bcommit\x00"

func newCutter(t *testing.T) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{address: l.Addr().String()}
	c.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.relay(client) })
		}
	})
	t.Cleanup(func() { l.Close(); c.wg.Wait() })
	return c
}

func (c *cutter) relay(client net.Conn) {
	defer client.Close()
	paydb, err := net.Dial("tcp", server.Address())
	if err != nil {
		return
	}
	defer paydb.Close()
	var swallow atomic.Bool
	answered := make(chan struct{}, 1)
	c.wg.Go(func() {
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := paydb.Read(buf)
			if err != nil {
				return
			}
			if swallow.Load() {
				answered <- struct{}{}
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte(commitMessage)) {
			switch c.mode.Swap(pass) {
			case cutBefore:
				return
			case cutAfter:
				swallow.Store(true)
				if _, err := paydb.Write(buf[:n]); err == nil {
					<-answered
				}
				return
			}
		}
		if _, err := io.Copy(paydb, bytes.NewReader(buf[:n])); err != nil {
			return
		}
	}
}

func TestACommitWithoutAnAnswerIsUnknownAndTheSameRequestSettlesIt(t *testing.T) {
	for _, tc := range []struct {
		name    string
		mode    int32
		balance string // straight after the unknown answer
	}{{"the commit was lost", cutBefore, "1000"}, {"the answer was lost", cutAfter, "750"}} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCutter(t)
			b := newBenchOn(t, strings.Replace(paydbURL, server.Address(), c.address, 1), true)
			acct := b.account(1000, 0)
			p := b.payout(acct, 250, "RAIL_ACKED", 41)
			c.mode.Store(tc.mode)
			if a := b.want(b.send(post(p, 41)), 503, "STORE_UNAVAILABLE"); a.at("retrySafe") != "true" {
				t.Errorf("answered %s", a.raw)
			}
			if got := b.row(`SELECT balance_minor::text FROM account WHERE account_id = $1`, acct); got != tc.balance {
				t.Errorf("the balance is %s, want %s", got, tc.balance)
			}
			a := b.want(b.send(post(p, 41)), 200, "")
			if got := b.accountLine(acct); got != "750 fence 41 entries -250" || a.at("balanceMinor") != "750" {
				t.Errorf("the account holds %s, answered %s", got, a.raw)
			}
		})
	}
}

func TestWithoutPaydbEveryRequestMayBeSentAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody listens here any more
	b := newBenchOn(t, strings.Replace(paydbURL, server.Address(), l.Addr().String(), 1), true)
	p := "0b9cd5c1-3b0e-4d43-8f2c-2a4c2f6f8a11"
	for verb, body := range writes {
		a := b.want(b.send(request{payout: p, verb: verb, body: body, token: 41}), 503, "STORE_UNAVAILABLE")
		if a.at("retrySafe") != "true" {
			t.Errorf("%s answered %s", verb, a.raw)
		}
	}
	for _, path := range []string{"/v1/payouts", "/v1/payouts/" + p, "/v1/accounts/" + p} {
		b.want(b.get(path), 503, "STORE_UNAVAILABLE")
	}
}

func TestARowThatStaysLockedIsAnOutageAndNoRefusal(t *testing.T) {
	b := newBenchOn(t, paydbURL+"&lock_timeout=50", true)
	acct := b.account(1000, 0)
	p := b.payout(acct, 250, "PENDING", 0)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM account WHERE account_id = $1 FOR UPDATE`, acct); err != nil {
		t.Fatal(err)
	}
	b.want(b.send(claim(p, 41, "PENDING")), 503, "STORE_UNAVAILABLE")
}

// A database's own default may be to answer a COMMIT before it is durable. What was answered must survive all the same.
func TestWhatIsAnsweredIsDurableWhateverPaydbsDefaultIs(t *testing.T) {
	url := newDatabase("careless")
	if _, err := db.Exec(t.Context(), `ALTER DATABASE careless SET synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	store, err := payment.OpenStore(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	for name, want := range map[string]string{"synchronous_commit": "on", "application_name": "payment-resource"} {
		if got, err := store.Setting(t.Context(), name); err != nil || got != want {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
}
