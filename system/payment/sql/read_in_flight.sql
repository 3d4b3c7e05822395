-- What the account's other payouts have a claim to, and the oldest of them that must be finished first.
SELECT least(coalesce(sum(amount_minor), 0), 9223372036854775807)::bigint,
       (array_agg(payout_id::text ORDER BY created_at, payout_id)
           FILTER (WHERE state IN ('CLAIMED','RAIL_SUBMITTED','RAIL_ACKED')))[1]
  FROM payout
 WHERE account_id = $1
   AND payout_id <> $2
   AND state IN ('CLAIMED','RAIL_SUBMITTED','RAIL_ACKED','RAIL_AMBIGUOUS');
