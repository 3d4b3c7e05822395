INSERT INTO lock_restore (moved_from, moved_to, highest_seen, ended_sessions, operator, reason)
VALUES ($1, $2, $3, $4, $5, $6);
