-- After (d) returned no row, in the same transaction: (d) has locked the row, so it cannot move meanwhile.
SELECT highest_token FROM rail_high_water WHERE account_id = $1;
