DELETE FROM lock_session;
