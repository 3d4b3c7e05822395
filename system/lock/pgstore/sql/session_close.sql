DELETE FROM lock_session s
 WHERE s.session_id = $1
RETURNING ARRAY(SELECT e.lock_key FROM lock_entry e WHERE e.session_id = s.session_id);
