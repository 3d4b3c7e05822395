INSERT INTO lock_session (session_id, owner_id, expires_at)
VALUES ($1, $2, now() + make_interval(secs => $3))
RETURNING expires_at;
