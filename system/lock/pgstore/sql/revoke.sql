WITH revoked AS (
    DELETE FROM lock_entry
     WHERE lock_key = $1
       AND expires_at > now()
       AND ($4::bigint = 0 OR fencing_token = $4)
    RETURNING lock_key, owner_id, fencing_token
)
INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, token_floor)
SELECT lock_key, owner_id, fencing_token, $2, $3, nextval('fencing_token_seq')
  FROM revoked
RETURNING id, prev_owner, prev_token, token_floor;
