SELECT payout_id::text, account_id::text, amount_minor, currency, state, claimed_by, claim_token, attempt_count, created_at,
       idempotency_key
  FROM payout
 WHERE payout_id = $1;
