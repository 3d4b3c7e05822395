INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
SELECT payout_id, account_id, amount_minor, $4, 'payout-' || payout_id
  FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS p (payout_id, account_id, amount_minor)
