package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Client calls one server. It sends every request at most once, whatever becomes of the connection.
type Client struct {
	base  string
	conns connections
}

// NewClient makes a client of the server at base ("http://127.0.0.1:8080"). Redirects are not followed: an answer that
// the contract does not know is an answer, and nothing is sent again. perHost bounds the idle connections kept.
func NewClient(base string, perHost int) *Client {
	return &Client{base: base, conns: connections{address: strings.TrimPrefix(base, "http://"), most: perHost}}
}

// Call is one request.
type Call struct {
	Method, Path string
	Owner        string // X-Owner-Id, "" for none
	Token        int64  // X-Fencing-Token, 0 for none
	Idempotency  string // X-Idempotency-Key, "" for none
	Body         any    // sent as JSON; nil sends {} with mutating methods and nothing with GET
}

// Do sends c once and decodes a 2xx answer into out (nil: ignore it). A non-2xx answer with an envelope is *Error;
// anything else is an error that says nothing about the effect: the caller must treat it as unknown.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	req, err := c.request(ctx, call)
	if err != nil {
		return err
	}
	status, body, err := c.conns.exchange(ctx, req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", call.Method, call.Path, err)
	}
	if status < 200 || status >= 300 {
		return envelope(call, status, body)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s %s: answer %d is not what the contract says: %w", call.Method, call.Path, status, err)
	}
	return nil
}

func envelope(call Call, status int, body []byte) error {
	var e struct {
		Error
		Details json.RawMessage `json:"details"`
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return fmt.Errorf("%s %s: answer %d without an error envelope", call.Method, call.Path, status)
	}
	e.Status = status
	if e.Details != nil {
		e.Error.Details = e.Details
	}
	return &e.Error
}

func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	var body io.Reader
	if call.Method != http.MethodGet {
		b := []byte("{}")
		if call.Body != nil {
			var err error
			if b, err = json.Marshal(call.Body); err != nil {
				return nil, fmt.Errorf("%s %s: encode the request: %w", call.Method, call.Path, err)
			}
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, c.base+call.Path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", call.Method, call.Path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if call.Owner != "" {
		req.Header.Set(HeaderOwner, call.Owner)
	}
	if call.Token != 0 {
		req.Header.Set(HeaderToken, FormatToken(call.Token))
	}
	if call.Idempotency != "" {
		req.Header.Set(HeaderIdempotency, call.Idempotency)
	}
	return req, nil
}

// Close drops the connections that are kept, and keeps none any more.
func (c *Client) Close() { c.conns.close() }
