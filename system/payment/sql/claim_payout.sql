UPDATE payout
   SET state         = $2,
       claimed_by    = $3,
       claim_token   = $4,
       attempt_count = attempt_count + 1,
       updated_at    = now()
 WHERE payout_id     = $1
RETURNING attempt_count;
