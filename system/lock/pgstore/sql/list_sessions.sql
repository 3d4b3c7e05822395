SELECT s.session_id, s.owner_id, s.ttl_ms, s.expires_at,
       (SELECT count(*) FROM lock_entry e WHERE e.session_id = s.session_id AND e.expires_at > now())
  FROM lock_session s
 WHERE s.expires_at > now()
   AND s.session_id > $1
   AND ($2 = '' OR s.owner_id = $2)
 ORDER BY s.session_id
 LIMIT $3;
