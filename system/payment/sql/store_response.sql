INSERT INTO payout_response (payout_id, operation, token, request, status, body)
VALUES ($1, $2, $3, $4, $5, $6);
