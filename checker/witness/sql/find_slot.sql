-- The slot as the server has it, of this database only. lost: the server threw away log that the slot needs.
SELECT confirmed_flush_lsn::text, wal_status = 'lost'
  FROM pg_replication_slots
 WHERE slot_name = $1 AND datoid = (SELECT oid FROM pg_database WHERE datname = current_database())
