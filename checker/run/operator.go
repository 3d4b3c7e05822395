package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"fenceproof/checker/contract"
	"fenceproof/deploy/local"
	"fenceproof/nemesis"
)

// operator revokes grants as an operator would: over the contract, by a link of its own.
type operator struct {
	base string
	http http.Client
}

// callOperator gives the operator a link to the lock server.
func callOperator(s *local.Stack) (*operator, error) {
	l, err := s.OpenLink(string(contract.Operator), local.LockServer)
	if err != nil {
		return nil, fmt.Errorf("give the operator a link: %w", err)
	}
	return &operator{base: "http://" + l.Address() + "/v1/locks/", http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}, nil
}

func (o *operator) close() { o.http.CloseIdleConnections() }

// Revoke sends one request (L8), once.
func (t target) Revoke(ctx context.Context, key string, token int64) error {
	if t.operator == nil {
		return errors.New("this run has no operator")
	}
	body, err := json.Marshal(map[string]any{"operator": string(contract.Operator), "reason": "taken away on purpose", "expectedToken": token})
	if err != nil {
		return fmt.Errorf("encode the revoke: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.operator.base+url.PathEscape(key)+"/revoke", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the revoke: %w", err)
	}
	req.GetBody = nil // the transport has no second copy to send
	req.Header.Set("Content-Type", "application/json")
	res, err := t.operator.http.Do(req)
	if err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer to the revoke: %w", err)
	case res.StatusCode == http.StatusOK:
		return nil
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusConflict:
		return nemesis.ErrNotHeld
	}
	return fmt.Errorf("the revoke was answered %d: %s", res.StatusCode, text)
}
