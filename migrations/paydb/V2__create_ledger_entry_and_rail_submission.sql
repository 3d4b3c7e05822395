CREATE TABLE ledger_entry (
    entry_id     UUID        PRIMARY KEY,
    payout_id    UUID        NOT NULL REFERENCES payout (payout_id),
    account_id   UUID        NOT NULL REFERENCES account (account_id),
    direction    TEXT        NOT NULL,
    amount_minor BIGINT      NOT NULL,
    fence        BIGINT      NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT ledger_direction_ck CHECK (direction IN ('DEBIT','CREDIT')),
    CONSTRAINT ledger_amount_ck    CHECK (amount_minor > 0),
    CONSTRAINT ledger_fence_ck     CHECK (fence > 0),
    CONSTRAINT ledger_leg_uq       UNIQUE (payout_id, account_id, direction)
);

CREATE TABLE rail_submission (
    submission_id   UUID        PRIMARY KEY,
    payout_id       UUID        NOT NULL REFERENCES payout (payout_id),
    idempotency_key TEXT        NOT NULL,
    presented_token BIGINT      NOT NULL,
    outcome         TEXT,
    rail_reference  TEXT,
    submitted_at    TIMESTAMPTZ NOT NULL DEFAULT now(),
    resolved_at     TIMESTAMPTZ,
    CONSTRAINT rail_outcome_ck  CHECK (outcome IS NULL
                                 OR outcome IN ('ACKED','REJECTED','TIMEOUT','FENCED')),
    CONSTRAINT rail_token_ck    CHECK (presented_token > 0),
    CONSTRAINT rail_resolved_ck CHECK ((outcome IS NULL) = (resolved_at IS NULL))
);
