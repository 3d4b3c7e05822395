-- What ended an uncertainty or an operator's wish: the evidence without which no payout leaves RAIL_AMBIGUOUS. A payout
-- is resolved at most once, so its id is the key. Rows are never changed.
CREATE TABLE payout_resolution (
    payout_id      UUID        PRIMARY KEY REFERENCES payout (payout_id),
    outcome        TEXT        NOT NULL,
    rail_reference TEXT,
    evidence       TEXT        NOT NULL,
    operator       TEXT,
    reason         TEXT,
    token          BIGINT      NOT NULL,
    created_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT resolution_outcome_ck   CHECK (outcome IN ('ACKED','ABSENT','ABANDONED')),
    CONSTRAINT resolution_reference_ck CHECK ((outcome = 'ACKED') = (rail_reference IS NOT NULL)),
    CONSTRAINT resolution_operator_ck  CHECK ((outcome = 'ABANDONED') = (operator IS NOT NULL AND reason IS NOT NULL)),
    CONSTRAINT resolution_token_ck     CHECK (token > 0)
);
