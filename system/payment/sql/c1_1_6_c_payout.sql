-- (c) payout transition, same transaction, still fenced.
UPDATE payout
   SET state = 'POSTED', updated_at = now()
 WHERE payout_id = $1 AND state = 'RAIL_ACKED' AND claim_token <= $2
RETURNING state;
