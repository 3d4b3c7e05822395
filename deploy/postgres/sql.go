package postgres

import _ "embed" // the statements

var (
	//go:embed sql/role_exists.sql
	roleExists string
	//go:embed sql/create_standby_slot.sql
	createStandbySlot string
	//go:embed sql/drop_standby_slot.sql
	dropStandbySlot string
	//go:embed sql/standby_state.sql
	standbyState string
	//go:embed sql/end_clients.sql
	endClients string
	//go:embed sql/commit_waits.sql
	commitWaits string
	//go:embed sql/flushed.sql
	flushedSQL string
	//go:embed sql/received.sql
	receivedSQL string
	//go:embed sql/promote.sql
	promoteSQL string
	//go:embed sql/in_recovery.sql
	inRecovery string
)
