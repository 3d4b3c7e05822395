-- raise_fence with fencing off: the token is not compared.
UPDATE account
   SET fence      = $2::bigint - 1,
       updated_at = now()
 WHERE account_id = $1
RETURNING fence;
