-- A non-transactional message stands in the log where it was written. The transaction id is asked for only because a
-- transaction that has one flushes the log when it ends: the marker would otherwise wait for the WAL writer.
SELECT pg_logical_emit_message(false, $1::text, $2::text), pg_current_xact_id()
