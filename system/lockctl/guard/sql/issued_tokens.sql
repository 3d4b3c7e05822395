SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END,
       greatest(coalesce((SELECT max(fencing_token) FROM lock_entry), 0),
                coalesce((SELECT max(token_floor) FROM lock_revocation), 0)),
       (SELECT count(*) FROM lock_session)
  FROM fencing_token_seq s;
