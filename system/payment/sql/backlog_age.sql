SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8
  FROM payout
 WHERE state = 'PENDING';
