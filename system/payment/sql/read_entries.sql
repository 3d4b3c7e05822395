SELECT entry_id::text, account_id::text, direction, amount_minor, fence
  FROM ledger_entry
 WHERE payout_id = $1
 ORDER BY direction DESC, account_id;
