-- The account's row is locked first and in a statement of its own: whatever is read after it sees all that earlier
-- holders of the row have committed. NO KEY leaves inserts that refer to the account alone.
SELECT account_id, currency, balance_minor, fence
  FROM account
 WHERE account_id = (SELECT account_id FROM payout WHERE payout_id = $1)
   FOR NO KEY UPDATE;
