-- A restored lockdb would hand out tokens again that were handed out after the backup. Who moved the sequence past them,
-- from where to where, and past which token the money had seen. Rows are never changed.
CREATE TABLE lock_restore (
    id             BIGSERIAL   PRIMARY KEY,
    moved_from     BIGINT      NOT NULL,
    moved_to       BIGINT      NOT NULL,
    highest_seen   BIGINT      NOT NULL,
    ended_sessions BIGINT      NOT NULL,
    operator       TEXT        NOT NULL,
    reason         TEXT        NOT NULL,
    guarded_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT lock_restore_up_ck   CHECK (moved_to >= moved_from),
    CONSTRAINT lock_restore_past_ck CHECK (moved_to >= highest_seen)
);
