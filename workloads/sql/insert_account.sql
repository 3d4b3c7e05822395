INSERT INTO account (account_id, currency, balance_minor) VALUES ($1, $2, $3)
