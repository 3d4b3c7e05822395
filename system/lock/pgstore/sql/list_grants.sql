SELECT lock_key, owner_id, session_id, fencing_token, ttl_ms, acquired_at, expires_at
  FROM lock_entry
 WHERE expires_at > now()
   AND lock_key > $1
   AND ($2 = '' OR owner_id = $2)
   AND starts_with(lock_key, $3)
 ORDER BY lock_key
 LIMIT $4;
