-- (c) with fencing off: the token is not compared, and a posted payout is posted again.
UPDATE payout
   SET state = 'POSTED', updated_at = now()
 WHERE payout_id = $1 AND state IN ('RAIL_ACKED','POSTED')
RETURNING state;
