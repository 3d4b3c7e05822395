SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint
