SELECT pg_notify('lock_free', payload) FROM unnest($1::text[]) AS payload;
