-- (b) ledger legs: only postable once the fence is at or above our token (i.e. (a) succeeded).
INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
SELECT $1, $2, a.account_id, $4, $5, $6
  FROM account a
 WHERE a.account_id = $3
   AND a.fence     <= $6
RETURNING entry_id;
