SELECT submission_id::text, presented_token, outcome, rail_reference, submitted_at, resolved_at
  FROM rail_submission
 WHERE payout_id = $1
 ORDER BY submitted_at, submission_id;
