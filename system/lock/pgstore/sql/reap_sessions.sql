WITH due AS MATERIALIZED (
    SELECT session_id
      FROM lock_session
     WHERE expires_at <= now()
     ORDER BY expires_at, session_id
     LIMIT $1
       FOR UPDATE SKIP LOCKED
)
DELETE FROM lock_session s
 USING due
 WHERE s.session_id = due.session_id
RETURNING s.session_id, s.owner_id, s.ttl_ms, s.expires_at,
          ARRAY(SELECT e.lock_key FROM lock_entry e WHERE e.session_id = s.session_id);
