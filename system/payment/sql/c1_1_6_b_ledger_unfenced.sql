-- (b) with fencing off: the token is not compared, and a leg that is there already is passed over.
INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
SELECT $1, $2, a.account_id, $4, $5, $6
  FROM account a
 WHERE a.account_id = $3
ON CONFLICT DO NOTHING
RETURNING entry_id;
