SELECT request, status, body
  FROM payout_response
 WHERE payout_id = $1
   AND operation = $2
   AND token     = $3;
