INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES ($1, $2, $3, $4, $5)
