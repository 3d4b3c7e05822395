-- The answer to every request that took effect, written in the transaction that carried it out: the same request under
-- the same token gets the same answer again, byte for byte, and has no second effect.
CREATE TABLE payout_response (
    payout_id  UUID        NOT NULL REFERENCES payout (payout_id),
    operation  TEXT        NOT NULL,
    token      BIGINT      NOT NULL,
    request    TEXT        NOT NULL,
    status     INTEGER     NOT NULL,
    body       TEXT        NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT response_pk           PRIMARY KEY (payout_id, operation, token),
    CONSTRAINT response_operation_ck CHECK (operation IN ('claim','submitted','outcome','post','resolve')),
    CONSTRAINT response_token_ck     CHECK (token > 0)
);
