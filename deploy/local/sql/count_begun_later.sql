-- Transactions of clients that began at a time that has not come yet: by a clock that was ahead, and is right again.
SELECT count(*)
  FROM pg_stat_activity
 WHERE backend_type = 'client backend'
   AND xact_start > clock_timestamp();
