package history

import (
	"strconv"
	"time"
)

// Int reads a column of a Change that holds a whole number. It is 0 where the row does not say: the column is NULL or
// absent, or holds something else.
func Int(column string) int64 {
	if column == "" {
		return 0 // most rows: an error would be made for nothing
	}
	n, err := strconv.ParseInt(column, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// pgTime is how PostgreSQL writes a timestamptz in UTC, which witnesses ask it for.
const pgTime = "2006-01-02 15:04:05.999999-07"

// Micros reads a column of a Change that holds a timestamptz: microseconds since 1970 by the database's own clock. It is 0
// where the row does not say.
func Micros(column string) int64 {
	t, err := time.Parse(pgTime, column)
	if err != nil {
		return 0
	}
	return t.UnixMicro()
}
