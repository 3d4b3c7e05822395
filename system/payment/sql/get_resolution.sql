SELECT outcome, rail_reference, evidence, operator, reason, token, created_at
  FROM payout_resolution
 WHERE payout_id = $1;
