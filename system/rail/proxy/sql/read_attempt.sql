-- The one attempt of a payout that was not fenced out.
SELECT submission_id::text, coalesce(outcome, ''), coalesce(rail_reference, ''), presented_token
  FROM rail_submission
 WHERE payout_id = $1 AND outcome IS DISTINCT FROM 'FENCED';
