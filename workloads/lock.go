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
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Hammer is many lock clients on one key: each acquires it and gives it back, as fast as the others let it. Now and then
// one renews first, enters again under its own grant, or lets its lease run out; and then it gives back what it does not
// hold any more, as a client does that comes late. Nothing is guarded by the key: only the lock itself is put to work.
type Hammer struct {
	Seed uint64
	Key  string
	// Servers is the lock server's address as each client has it, "127.0.0.1:8080": a client for each.
	Servers []string

	granted atomic.Int64
}

// HammerOwner is the owner id of client n, from 1.
func HammerOwner(n int) string { return "lock-client-" + strconv.Itoa(n) }

// Times of the lock clients.
const (
	hammerTTL     = time.Second // the shortest lease there is: a lapsed one keeps the others away for as long
	hammerSession = 30 * time.Second
	hammerWait    = 200 * time.Millisecond
	hammerRetry   = 4 * time.Millisecond // at most this after a refusal
	hammerCall    = 5 * time.Second      // of one call
)

// Of so many grants one takes the way.
const (
	oneLapses   = 200
	oneRenews   = 8
	oneReenters = 8
	oneWaits    = 4 // of acquires
)

// Run hammers until ctx ends; what is held then is given back. That nobody was ever granted the key is an error: such a
// run has shown nothing.
func (h *Hammer) Run(ctx context.Context) error {
	var g errgroup.Group
	for i, server := range h.Servers {
		g.Go(func() error {
			c := &lockClient{hammer: h, owner: HammerOwner(i + 1), base: "http://" + server + "/v1",
				rng: rand.New(rand.NewPCG(h.Seed, 0x6c6f636b+uint64(i)))} // a stream for each: "lock"
			c.run(ctx)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if h.granted.Load() == 0 {
		return fmt.Errorf("none of %d lock clients was ever granted %s", len(h.Servers), h.Key)
	}
	return nil
}

// Granted is how often the key was granted so far.
func (h *Hammer) Granted() int64 { return h.granted.Load() }

// lockClient is one client with a session of its own.
type lockClient struct {
	hammer  *Hammer
	owner   string
	base    string
	rng     *rand.Rand
	http    http.Client
	session string
	beat    time.Time // when the session was last opened or extended
}

func (c *lockClient) run(ctx context.Context) {
	c.http.Transport = &http.Transport{MaxIdleConnsPerHost: 1}
	defer c.http.CloseIdleConnections()
	for ctx.Err() == nil {
		if !c.alive(ctx) {
			pause(ctx, hammerRetry*10)
			continue
		}
		token, ok := c.acquire(ctx)
		if !ok {
			pause(ctx, time.Duration(c.rng.Int64N(int64(hammerRetry))))
			continue
		}
		c.hold(ctx, token)
	}
	if c.session != "" {
		_, _ = c.call(ctx, http.MethodDelete, "/sessions/"+c.session, 0, struct{}{}, nil) // it ends with its TTL otherwise
	}
}

// hold does with a grant what its turn is, and gives it back.
func (c *lockClient) hold(ctx context.Context, token int64) {
	switch turn := c.rng.IntN(oneLapses * oneRenews * oneReenters); {
	case turn%oneLapses == 0:
		pause(ctx, hammerTTL+50*time.Millisecond) // and then it comes late
	case turn%oneRenews == 1:
		_, _ = c.call(ctx, http.MethodPost, c.path("/renew"), token, map[string]any{"sessionId": c.session}, nil) // the release tells what it held
	case turn%oneReenters == 2:
		if again, ok := c.acquire(ctx); ok {
			c.release(ctx, token) // stale from the moment that it entered again
			token = again
		}
	}
	c.release(ctx, token)
}

// alive opens the session where there is none, and extends it in time.
func (c *lockClient) alive(ctx context.Context) bool {
	sent := time.Now()
	switch {
	case c.session == "":
		var out struct {
			SessionID string `json:"sessionId"`
		}
		status, err := c.call(ctx, http.MethodPost, "/sessions", 0, map[string]any{"ownerId": c.owner, "ttlMillis": hammerSession.Milliseconds()}, &out)
		if err != nil || status != http.StatusCreated {
			return false
		}
		c.session, c.beat = out.SessionID, sent
	case sent.Sub(c.beat) > hammerSession/4:
		status, err := c.call(ctx, http.MethodPost, "/sessions/"+c.session+"/heartbeat", 0, struct{}{}, nil)
		switch {
		case err == nil && status == http.StatusOK:
			c.beat = sent
		case status == http.StatusNotFound || status == http.StatusGone:
			c.session = ""
			return false
		}
	}
	return true
}

func (c *lockClient) acquire(ctx context.Context) (token int64, ok bool) {
	wait := time.Duration(0)
	if c.rng.IntN(oneWaits) == 0 {
		wait = hammerWait
	}
	var out struct {
		FencingToken int64 `json:"fencingToken"`
	}
	status, err := c.call(ctx, http.MethodPost, c.path("/acquire"), 0,
		map[string]any{"sessionId": c.session, "ttlMillis": hammerTTL.Milliseconds(), "waitMillis": wait.Milliseconds()}, &out)
	if err == nil && (status == http.StatusNotFound || status == http.StatusGone) {
		c.session = ""
	}
	if err != nil || status != http.StatusOK || out.FencingToken <= 0 {
		return 0, false
	}
	c.hammer.granted.Add(1)
	return out.FencingToken, true
}

// release gives a grant back. Whether it was still held is for the witnesses to see.
func (c *lockClient) release(ctx context.Context, token int64) {
	_, _ = c.call(ctx, http.MethodDelete, c.path(""), token, map[string]any{"sessionId": c.session}, nil)
}

func (c *lockClient) path(verb string) string {
	return "/locks/" + url.PathEscape(c.hammer.Key) + verb
}

// call sends one request, once, and is not cut short when the run ends.
func (c *lockClient) call(ctx context.Context, method, path string, token int64, in, out any) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hammerCall)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return 0, fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("make the request: %w", err)
	}
	req.GetBody = nil // with it, the transport would send again by itself what a broken connection may have delivered
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Owner-Id", c.owner)
	if token > 0 {
		req.Header.Set("X-Fencing-Token", strconv.FormatInt(token, 10))
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return 0, err
	}
	if out != nil && res.StatusCode < 300 {
		if err := json.Unmarshal(text, out); err != nil {
			return 0, errors.Join(errors.New("the answer is no JSON"), err)
		}
	}
	return res.StatusCode, nil
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
