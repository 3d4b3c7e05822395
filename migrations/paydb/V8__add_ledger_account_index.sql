-- The sum of an account's ledger entries is asked for by account; ledger_leg_uq begins with the payout.
CREATE INDEX ledger_account_idx ON ledger_entry (account_id);
