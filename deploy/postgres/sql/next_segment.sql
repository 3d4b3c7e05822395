SELECT pg_switch_wal() FROM pg_current_xact_id()
