UPDATE lock_session
   SET expires_at = now() + make_interval(secs => $2)
 WHERE session_id = $1 AND expires_at > now()
RETURNING expires_at;
