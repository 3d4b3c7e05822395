SELECT owner_id, ttl_ms, expires_at, expires_at > now()
  FROM lock_session
 WHERE session_id = $1;
