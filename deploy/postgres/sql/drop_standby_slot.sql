-- Of a standby that is gone.
SELECT pg_drop_replication_slot(slot_name)
  FROM pg_replication_slots
 WHERE slot_name = $1 AND slot_type = 'physical' AND NOT active
