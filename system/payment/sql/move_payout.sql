UPDATE payout
   SET state      = $2,
       updated_at = now()
 WHERE payout_id  = $1
RETURNING state;
