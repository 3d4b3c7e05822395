-- The clearing account's side of the posting. Its fence stays 0: it is no lock's resource.
UPDATE account
   SET balance_minor = balance_minor + $1,
       updated_at    = now()
 WHERE account_id    = $2
   AND currency      = $3
RETURNING balance_minor;
