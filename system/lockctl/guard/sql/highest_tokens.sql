SELECT place, token
  FROM (SELECT 'account.fence' AS place, max(fence) AS token FROM account
        UNION ALL SELECT 'rail_high_water.highest_token', max(highest_token) FROM rail_high_water
        UNION ALL SELECT 'payout.claim_token', max(claim_token) FROM payout
        UNION ALL SELECT 'rail_submission.presented_token', max(presented_token) FROM rail_submission
        UNION ALL SELECT 'payout_resolution.token', max(token) FROM payout_resolution
        UNION ALL SELECT 'payout_response.token', max(token) FROM payout_response
        UNION ALL SELECT 'ledger_entry.fence', max(fence) FROM ledger_entry) AS seen
 WHERE token > 0
 ORDER BY token DESC, place
 LIMIT 1;
