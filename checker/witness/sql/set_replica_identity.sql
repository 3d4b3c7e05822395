-- Every table logs the whole old row of an update and delete from now on. Tables that already do are left alone, so
-- that no needless lock is taken, and each of the others is locked in a transaction of its own: several locks at once
-- would make a deadlock with whoever writes.
DO $$
DECLARE t record;
BEGIN
    FOR t IN SELECT n.nspname, c.relname
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.relreplident <> 'f'
                AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\_%'
    LOOP
        EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY FULL', t.nspname, t.relname);
        COMMIT;
    END LOOP;
END $$
