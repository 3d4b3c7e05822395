-- With fencing off the mark follows whatever comes, so that the record shows what was let through.
INSERT INTO rail_high_water (account_id, highest_token, updated_at)
VALUES ($1, $2, now())
ON CONFLICT (account_id) DO UPDATE
   SET highest_token = EXCLUDED.highest_token,
       updated_at    = now()
RETURNING highest_token;
