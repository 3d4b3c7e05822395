-- (a) with fencing off: the token is not compared.
UPDATE account
   SET balance_minor = balance_minor - $1,
       fence         = $2,
       updated_at    = now()
 WHERE account_id    = $3
   AND currency      = $4
   AND balance_minor >= $1
RETURNING balance_minor, fence;
