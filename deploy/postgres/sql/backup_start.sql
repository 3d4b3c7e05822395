SELECT pg_backup_start($1, fast => true)
