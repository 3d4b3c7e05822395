INSERT INTO payout_resolution (payout_id, outcome, rail_reference, evidence, operator, reason, token)
VALUES ($1, $2, $3, $4, $5, $6, $7);
