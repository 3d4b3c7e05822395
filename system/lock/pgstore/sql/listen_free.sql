LISTEN lock_free;
