package pgstore

import _ "embed" // the statements

// C1's own statements: 1.3 and 1.4, word for word.
var (
	//go:embed sql/acquire.sql
	acquireSQL string
	//go:embed sql/renew.sql
	renewSQL string
	//go:embed sql/release.sql
	releaseSQL string
	//go:embed sql/session_heartbeat.sql
	sessionHeartbeatSQL string
)

// What C1 leaves open.
var (
	//go:embed sql/lock_key.sql
	lockKeySQL string
	//go:embed sql/clock_and_session.sql
	clockAndSessionSQL string
	//go:embed sql/read_entry.sql
	readEntrySQL string
	//go:embed sql/revoke.sql
	revokeSQL string
	//go:embed sql/count_held.sql
	countHeldSQL string
	//go:embed sql/session_open.sql
	sessionOpenSQL string
	//go:embed sql/session_read.sql
	sessionReadSQL string
	//go:embed sql/session_held.sql
	sessionHeldSQL string
	//go:embed sql/session_close.sql
	sessionCloseSQL string
	//go:embed sql/reap_sessions.sql
	reapSessionsSQL string
	//go:embed sql/reap_grants.sql
	reapGrantsSQL string
	//go:embed sql/announce_free.sql
	announceFreeSQL string
	//go:embed sql/listen_free.sql
	listenFreeSQL string
)
