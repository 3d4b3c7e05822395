UPDATE lock_entry
   SET expires_at = now() + make_interval(secs => $3)
 WHERE lock_key      = $1
   AND fencing_token = $2
   AND expires_at    > now()
RETURNING fencing_token, expires_at;
