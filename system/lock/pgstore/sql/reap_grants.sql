WITH due AS MATERIALIZED (
    SELECT lock_key, fencing_token
      FROM lock_entry
     WHERE expires_at <= now()
     ORDER BY expires_at, lock_key
     LIMIT $1
       FOR UPDATE SKIP LOCKED
)
DELETE FROM lock_entry e
 USING due
 WHERE e.lock_key = due.lock_key AND e.fencing_token = due.fencing_token
RETURNING e.lock_key, e.owner_id, e.session_id, e.fencing_token, e.ttl_ms, e.acquired_at, e.expires_at;
