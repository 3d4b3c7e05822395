SELECT clock_timestamp(), (SELECT expires_at FROM lock_session WHERE session_id = $1);
