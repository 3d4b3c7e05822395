-- C1 1.6 (d): rail-proxy high-water mark, its own transaction in its own process.
-- No row: a token at or above this one has already submitted for this account.
INSERT INTO rail_high_water (account_id, highest_token, updated_at)
VALUES ($1, $2, now())
ON CONFLICT (account_id) DO UPDATE
   SET highest_token = EXCLUDED.highest_token,
       updated_at    = now()
 WHERE rail_high_water.highest_token < EXCLUDED.highest_token
RETURNING highest_token;
