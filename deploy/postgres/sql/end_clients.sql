-- How many connections a user has, each of which is told to end.
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = $1
