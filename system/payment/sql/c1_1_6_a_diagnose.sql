-- (a) gave no row: fenced out or insufficient funds? The row is still locked, so this is what (a) saw.
SELECT fence, balance_minor
  FROM account
 WHERE account_id = $1;
