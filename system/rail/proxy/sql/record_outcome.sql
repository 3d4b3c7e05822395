-- What became of the forwarded attempt. Only the request that forwarded it writes this, once.
UPDATE rail_submission
   SET outcome = $2, rail_reference = $3, resolved_at = now()
 WHERE submission_id = $1 AND outcome IS NULL;
