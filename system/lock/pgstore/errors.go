package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"fenceproof/system/lock"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that are facts about a session: two of the schema's own (V4), and the foreign key's, for a session that
// ended between the check and the insert.
const (
	sessionUnknown  = "FP404"
	sessionExpired  = "FP410"
	foreignKey      = "23503"
	checkViolation  = "23514"
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
)

// unavailableClasses are the classes of SQLSTATE that say that the database could not do it now, whatever was asked:
// lost connections, read-only standby and time-outs, deadlocks, exhaustion, held objects, shutdown and cancellation,
// system errors, no such role or database (yet).
var unavailableClasses = []string{"08", "25", "28", "3D", "40", "53", "55", "57", "58"}

// outcome says in terms of the contract what became of an operation. Everything that is not an answer of the database
// is ErrUnavailable: nothing happened, or nobody knows (rule 7). What is left is a mistake in this package.
func outcome(err error) error {
	var refusal *pgconn.PgError
	var scan pgx.ScanArgError
	var noConnection *pgconn.ConnectError
	switch {
	case err == nil || errors.Is(err, pgx.ErrNoRows) || errors.As(err, &scan):
		return err
	case errors.As(err, &noConnection), !errors.As(err, &refusal): // one that takes no connections has refused no statement
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	switch refusal.Code {
	case sessionUnknown, foreignKey:
		return lock.ErrSessionUnknown
	case sessionExpired:
		return lock.ErrSessionExpired
	case checkViolation:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	case undefinedTable, undefinedColumn:
		return fmt.Errorf("%w: lockdb is not migrated, run lock-server migrate: %w", lock.ErrUnavailable, err)
	}
	for _, class := range unavailableClasses {
		if strings.HasPrefix(refusal.Code, class) {
			return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
		}
	}
	return err
}
