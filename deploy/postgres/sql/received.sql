-- What a standby has of its primary's log on its own disk.
SELECT (coalesce(pg_last_wal_receive_lsn(), '0/0') - '0/0')::bigint
