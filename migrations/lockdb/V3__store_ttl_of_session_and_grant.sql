-- The TTL that was asked for, in milliseconds. A heartbeat has no body, so a session must know its own TTL; a renewal
-- must not ask for another TTL than the grant's. C1's statements name neither column, so the row works the value out
-- when it is granted: both times come from one now(), hence exactly. A renewal leaves the token and the TTL alone.
ALTER TABLE lock_session ADD COLUMN ttl_ms INTEGER NOT NULL;

ALTER TABLE lock_entry ADD COLUMN ttl_ms INTEGER NOT NULL;

CREATE FUNCTION lock_session_store_ttl() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ttl_ms := round(extract(epoch FROM NEW.expires_at - NEW.created_at) * 1000);
    RETURN NEW;
END $$;

CREATE FUNCTION lock_entry_store_ttl() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.ttl_ms := round(extract(epoch FROM NEW.expires_at - NEW.acquired_at) * 1000);
    RETURN NEW;
END $$;

CREATE TRIGGER lock_session_store_ttl BEFORE INSERT ON lock_session
    FOR EACH ROW EXECUTE FUNCTION lock_session_store_ttl();

CREATE TRIGGER lock_entry_store_ttl BEFORE INSERT OR UPDATE OF fencing_token ON lock_entry
    FOR EACH ROW EXECUTE FUNCTION lock_entry_store_ttl();
