SELECT clock_timestamp(),
       (SELECT expires_at FROM lock_session WHERE session_id = $1),
       CASE WHEN NOT EXISTS (SELECT FROM lock_entry WHERE lock_key = $2 AND session_id = $1)
            THEN set_config('synchronous_commit', 'off', true)
       END;
