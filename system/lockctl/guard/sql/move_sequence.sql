SELECT setval('fencing_token_seq', $1);
