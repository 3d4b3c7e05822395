package workloads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// lockClient speaks the lock's part of the contract, over plain HTTP.
type lockClient struct {
	*Lock
	ctx  context.Context // of its calls
	http http.Client
}

// lockSession is a session that is kept alive until it is silenced.
type lockSession struct {
	id     string
	ttl    time.Duration
	dead   atomic.Bool // the server has said so
	silent context.CancelFunc
	beats  sync.WaitGroup
}

// open opens a session and keeps it alive; nil where that was not answered.
func (c *lockClient) open(ttl time.Duration) *lockSession {
	var out struct {
		SessionID string `json:"sessionId"`
	}
	status, err := c.call(http.MethodPost, "/sessions", 0, map[string]any{"ownerId": c.Owner, "ttlMillis": ttl.Milliseconds()}, &out)
	if err != nil || status != http.StatusCreated || out.SessionID == "" {
		return nil
	}
	ctx, silent := context.WithCancel(c.ctx)
	s := &lockSession{id: out.SessionID, ttl: ttl, silent: silent}
	s.beats.Go(func() {
		for {
			pause(ctx, ttl/4)
			if ctx.Err() != nil {
				return
			}
			status, err := c.call(http.MethodPost, "/sessions/"+s.id+"/heartbeat", 0, struct{}{}, nil)
			if err == nil && gone(status) {
				s.dead.Store(true)
				return
			}
		}
	})
	return s
}

// hush ends the heartbeat; a beat that is under way is waited for.
func (s *lockSession) hush() {
	s.silent()
	s.beats.Wait()
}

// close closes a session in order. What it holds ends with it.
func (c *lockClient) close(s *lockSession) {
	s.hush()
	_, _ = c.call(http.MethodDelete, "/sessions/"+s.id, 0, struct{}{}, nil) // it ends with its TTL otherwise
}

// lockGrant is a grant as its client knows it.
type lockGrant struct {
	key   string
	token int64
}

// acquire asks for a key; false where it was not granted, or nobody knows.
func (c *lockClient) acquire(s *lockSession, key string, ttl, wait time.Duration) (lockGrant, bool) {
	var out struct {
		FencingToken int64 `json:"fencingToken"`
	}
	status, err := c.patient(wait, http.MethodPost, lockPath(key, "/acquire"), 0,
		map[string]any{"sessionId": s.id, "ttlMillis": ttl.Milliseconds(), "waitMillis": wait.Milliseconds()}, &out)
	if err == nil && gone(status) {
		s.dead.Store(true)
	}
	return lockGrant{key, out.FencingToken}, err == nil && status == http.StatusOK && out.FencingToken > 0
}

// renew renews g. Whether it was still held is for the witnesses to see.
func (c *lockClient) renew(s *lockSession, g lockGrant) {
	_, _ = c.call(http.MethodPost, lockPath(g.key, "/renew"), g.token, map[string]any{"sessionId": s.id}, nil)
}

// release gives g back, likewise.
func (c *lockClient) release(s *lockSession, g lockGrant) {
	_, _ = c.call(http.MethodDelete, lockPath(g.key, ""), g.token, map[string]any{"sessionId": s.id}, nil)
}

// gone tells whether a status says that the session has ended.
func gone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }

func lockPath(key, verb string) string { return "/locks/" + url.PathEscape(key) + verb }

// call sends one request, once. in is its body, nil for none.
func (c *lockClient) call(method, path string, token int64, in, out any) (int, error) {
	return c.patient(0, method, path, token, in, out)
}

// patient is call for a request that may wait.
func (c *lockClient) patient(wait time.Duration, method, path string, token int64, in, out any) (int, error) {
	ctx, cancel := context.WithTimeout(c.ctx, lockCall+wait)
	defer cancel()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Server+"/v1"+path, body)
	if err != nil {
		return 0, fmt.Errorf("make the request: %w", err)
	}
	req.GetBody = nil // with it, the transport would send again by itself what a broken connection may have delivered
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Owner-Id", c.Owner)
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
