package workloads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// Audit is a process that reads payouts and accounts while others write: one payout of the list after the other, and the
// account that it is drawn on. It changes nothing; what it was told is for the witnesses to see.
//
// Audit is what the process is told, too: one JSON object, see ParseAudit.
type Audit struct {
	Owner  string `json:"owner"`  // its name
	Server string `json:"server"` // payment-resource's address, "127.0.0.1:8080"
	Seed   uint64 `json:"seed,string"`
	// Rate is how many payouts per second it looks up.
	Rate float64 `json:"rate"`
}

// auditCall is how long the auditor waits for an answer.
const auditCall = time.Second

// ParseAudit reads what an auditor is told. It refuses what none can do.
func ParseAudit(text []byte) (*Audit, error) {
	var a Audit
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("read what an auditor is told: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("read what an auditor is told: something follows the JSON object")
	}
	if a.Owner == "" || a.Server == "" || a.Rate <= 0 {
		return nil, errors.New("an auditor needs an owner, a server, and a rate above 0")
	}
	return &a, nil
}

// Run looks up payouts until ctx ends.
func (a *Audit) Run(ctx context.Context) {
	client := http.Client{Transport: &http.Transport{}, Timeout: auditCall}
	defer client.CloseIdleConnections()
	rng := rand.New(rand.NewPCG(a.Seed, 0x6175646974)) // "audit"
	each := float64(time.Second) / a.Rate
	for ctx.Err() == nil {
		began := time.Now()
		a.look(ctx, &client, rng)
		pause(ctx, time.Until(began.Add(time.Duration(each*(0.5+rng.Float64())))))
	}
}

// look reads one of the payouts listed, and its account.
func (a *Audit) look(ctx context.Context, client *http.Client, rng *rand.Rand) {
	var page struct {
		Items []struct {
			PayoutID  string `json:"payoutId"`
			AccountID string `json:"accountId"`
		} `json:"items"`
	}
	if a.get(ctx, client, "/payouts?limit=100", &page) != nil || len(page.Items) == 0 {
		return
	}
	p := page.Items[rng.IntN(len(page.Items))]
	_ = a.get(ctx, client, "/payouts/"+url.PathEscape(p.PayoutID), nil)
	_ = a.get(ctx, client, "/accounts/"+url.PathEscape(p.AccountID), nil)
}

// get asks once.
func (a *Audit) get(ctx context.Context, client *http.Client, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Server+"/v1"+path, nil)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("X-Owner-Id", a.Owner)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(text, out)
}
