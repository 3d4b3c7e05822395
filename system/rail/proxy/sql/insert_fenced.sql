-- C1 1.6 (d), no row: a refused attempt is recorded for the audit; the attempt index leaves it out.
INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at)
VALUES ($1, $2, $3, $4, 'FENCED', now());
