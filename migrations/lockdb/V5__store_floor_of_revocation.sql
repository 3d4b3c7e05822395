-- A revoke moves the token floor: every later grant of the key has token_floor or more.
ALTER TABLE lock_revocation ADD COLUMN token_floor BIGINT NOT NULL;

ALTER TABLE lock_revocation ADD CONSTRAINT lock_revocation_floor_ck CHECK (token_floor > prev_token);
