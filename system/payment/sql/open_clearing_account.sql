-- The currency's clearing account comes to exist with the first post that needs it.
INSERT INTO account (account_id, currency)
VALUES ($1, $2)
ON CONFLICT (account_id) DO NOTHING;
