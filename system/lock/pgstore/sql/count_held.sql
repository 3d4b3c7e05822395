SELECT count(*) FROM lock_entry WHERE expires_at > now();
