-- Slots that a witness of this database left behind, for example inside a restored data directory: nobody reads them,
-- and they would keep the log for ever.
SELECT pg_drop_replication_slot(slot_name)
  FROM pg_replication_slots
 WHERE slot_name LIKE 'fenceproof\_%' AND database = current_database() AND NOT active
