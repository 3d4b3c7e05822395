SELECT now(), count(*)
  FROM lock_entry
 WHERE session_id = $1 AND expires_at > now();
