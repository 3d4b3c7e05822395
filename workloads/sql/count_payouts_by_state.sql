SELECT state, count(*) FROM payout GROUP BY state
