-- Executors ask for open payouts all the time, and a claim asks what an account has in flight. Finished payouts pile up
-- without end and must cost neither of them anything.
CREATE INDEX payout_open_idx ON payout (account_id, created_at, payout_id)
    WHERE state IN ('PENDING','CLAIMED','RAIL_SUBMITTED','RAIL_ACKED','RAIL_AMBIGUOUS');
