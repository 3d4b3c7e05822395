-- claim and resolve: everybody older than the token is shut out, the token itself is not.
UPDATE account
   SET fence      = $2::bigint - 1,
       updated_at = now()
 WHERE account_id = $1
   AND fence      < $2
RETURNING fence;
