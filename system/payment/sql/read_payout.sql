SELECT state, claim_token, amount_minor, currency, idempotency_key
  FROM payout
 WHERE payout_id = $1;
