LOCK TABLE lock_session, lock_entry IN SHARE ROW EXCLUSIVE MODE;
