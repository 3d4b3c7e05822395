-- The log is kept from now on for whoever reads by this slot.
SELECT pg_create_physical_replication_slot($1, true)::text
