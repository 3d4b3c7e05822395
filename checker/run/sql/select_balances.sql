-- What every account holds and what its entries sum up to, at one instant.
SELECT a.account_id::text, a.balance_minor, a.fence,
       COALESCE(sum(CASE l.direction WHEN 'CREDIT' THEN l.amount_minor ELSE -l.amount_minor END), 0)::bigint
  FROM account a
  LEFT JOIN ledger_entry l ON l.account_id = a.account_id
 GROUP BY a.account_id
 ORDER BY a.account_id
