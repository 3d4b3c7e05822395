SELECT owner_id, session_id, fencing_token, ttl_ms, acquired_at, expires_at, expires_at > now()
  FROM lock_entry
 WHERE lock_key = $1;
