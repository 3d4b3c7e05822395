-- One statement, so that balance and sum are of one moment. Credits add and debits take away: the sum is the balance
-- less what the account was opened with (INV-03).
SELECT a.account_id::text, a.currency, a.balance_minor, a.fence,
       (SELECT coalesce(sum(CASE e.direction WHEN 'CREDIT' THEN e.amount_minor ELSE -e.amount_minor END), 0)::bigint
          FROM ledger_entry e
         WHERE e.account_id = a.account_id)
  FROM account a
 WHERE a.account_id = $1;
