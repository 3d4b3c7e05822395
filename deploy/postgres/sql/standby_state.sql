-- How a standby is connected: state is streaming once it has caught up, sync_state is sync when commits wait for it.
SELECT state, sync_state FROM pg_stat_replication WHERE application_name = $1
