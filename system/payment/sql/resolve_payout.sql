UPDATE payout
   SET state       = $2,
       claimed_by  = $3,
       claim_token = $4,
       updated_at  = now()
 WHERE payout_id   = $1
RETURNING state;
