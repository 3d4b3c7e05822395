-- A session that is gone or expired gets no grant, whoever asks. The foreign key alone lets an expired session in until
-- the reaper has come by. FOR KEY SHARE holds the session in place until the grant is committed: its end then finds the
-- grant and takes it along.
CREATE FUNCTION lock_entry_refuse_dead_session() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    alive BOOLEAN;
BEGIN
    SELECT expires_at > now() INTO alive FROM lock_session WHERE session_id = NEW.session_id FOR KEY SHARE;
    IF alive IS NULL THEN
        RAISE EXCEPTION 'lock session % is unknown', NEW.session_id USING ERRCODE = 'FP404';
    ELSIF NOT alive THEN
        RAISE EXCEPTION 'lock session % has expired', NEW.session_id USING ERRCODE = 'FP410';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER lock_entry_refuse_dead_session BEFORE INSERT ON lock_entry
    FOR EACH ROW EXECUTE FUNCTION lock_entry_refuse_dead_session();
