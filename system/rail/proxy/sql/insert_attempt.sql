-- The intent, before anything is forwarded. No row: the payout has an attempt already (rail_submission_attempt_uidx),
-- and the raise of the mark stays.
INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token)
VALUES ($1, $2, $3, $4)
ON CONFLICT (payout_id) WHERE outcome IS DISTINCT FROM 'FENCED' DO NOTHING
RETURNING submission_id;
