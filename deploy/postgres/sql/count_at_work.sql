-- Connections of a user that are in the middle of a statement and go on by themselves. Those that wait for a standby, or
-- for a lock of somebody who waits, do not.
SELECT count(*)
  FROM pg_stat_activity
 WHERE usename = $1 AND state IN ('active', 'fastpath function call')
   AND wait_event_type IS DISTINCT FROM 'Lock' AND wait_event IS DISTINCT FROM 'SyncRep'
