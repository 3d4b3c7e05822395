package lockserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"
)

// events writes the log events that others read by name. Those of every grant are written without boxing their values:
// they are a good part of what a request costs.
type events struct{ log *slog.Logger }

func (e events) lockGranted(g lock.Grant, took time.Duration) {
	e.log.LogAttrs(context.Background(), slog.LevelInfo, "lock granted", slog.String("event", "lock_granted"), slog.String("key", g.Key),
		slog.String("ownerId", g.OwnerID), slog.String("sessionId", g.SessionID), slog.Int64("fencingToken", g.FencingToken),
		slog.Int64("ttlMillis", g.TTL.Milliseconds()), slog.Time("expiresAt", g.ExpiresAt.UTC()), slog.Int64("tookMillis", took.Milliseconds()))
}

func (e events) lockReleased(key, ownerID string, token int64, stale bool) {
	e.log.LogAttrs(context.Background(), slog.LevelInfo, "lock released", slog.String("event", "lock_released"), slog.String("key", key),
		slog.String("ownerId", ownerID), slog.Int64("fencingToken", token), slog.Bool("stale", stale))
}

func (e events) leaseExpired(g lock.Grant) {
	e.log.Info("lease expired", "event", "lease_expired", "key", g.Key, "ownerId", g.OwnerID, "sessionId", g.SessionID,
		"fencingToken", g.FencingToken, "expiresAt", g.ExpiresAt.UTC())
}

func (e events) lockRevoked(key, operator, reason string, r lock.Revocation) {
	e.log.Warn("lock revoked", "event", "lock_revoked", "key", key, "ownerId", r.OwnerID, "operator", operator, "reason", reason,
		"revokedToken", r.RevokedToken, "newTokenFloor", r.NewTokenFloor, "revocationId", r.ID)
}

func (e events) sessionLost(x lock.Session) {
	e.log.Warn("session lost", "event", "session_lost", "sessionId", x.ID, "ownerId", x.OwnerID, "expiresAt", x.ExpiresAt.UTC())
}

// reaped tells when the reaper begins to fail and when it works again, and not at every tick between.
func (e events) reaped(err error, failing bool) (failsNow bool) {
	switch {
	case err != nil && !failing && !errors.Is(err, context.Canceled):
		e.log.Error("what has expired cannot be ended: dead sessions keep their grants until these expire", "event", "reap_failed", "error", err.Error())
	case err == nil && failing:
		e.log.Info("what has expired is ended again", "event", "reap_resumed")
	}
	return err != nil
}

func (e events) failed(r *http.Request, answer *wire.Error, err error) {
	e.log.Error("request failed", "event", "request_failed", "method", r.Method, "path", r.URL.EscapedPath(),
		"code", string(answer.Code), "traceId", answer.TraceID, "error", err.Error())
}
