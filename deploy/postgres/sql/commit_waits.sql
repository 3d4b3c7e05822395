-- Whether a commit of a user waits for a standby.
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'SyncRep')
