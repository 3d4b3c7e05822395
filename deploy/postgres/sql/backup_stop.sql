SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)
