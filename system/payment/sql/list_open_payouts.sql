-- list_payouts when only open states are asked for: the literal list lets payout_open_idx answer, however many payouts
-- are finished.
SELECT payout_id::text, account_id::text, amount_minor, currency, state, claimed_by, claim_token, attempt_count, created_at
  FROM payout
 WHERE state IN ('PENDING','CLAIMED','RAIL_SUBMITTED','RAIL_ACKED','RAIL_AMBIGUOUS')
   AND state = ANY ($1::text[])
   AND ($2::uuid IS NULL OR account_id = $2)
   AND ($3::timestamptz IS NULL OR (created_at, payout_id) > ($3, $4::uuid))
 ORDER BY created_at, payout_id
 LIMIT $5;
