-- How a standby is connected: state is streaming once it has caught up, sync_state is sync when commits wait for it, and
-- flushed is what it says to have of the log on its own disk. The server of a connection that is lost may be there still.
SELECT state, sync_state, (coalesce(flush_lsn, '0/0') - '0/0')::bigint AS flushed
FROM pg_stat_replication WHERE application_name = $1
ORDER BY flushed DESC LIMIT 1
