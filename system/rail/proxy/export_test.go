package proxy

import (
	"context"
	"time"
)

// SetRecordTimeout shortens the tries to commit an outcome, for tests in which they cannot succeed.
func (p *Proxy) SetRecordTimeout(d time.Duration) { p.recordTimeout = d }

// Setting is a setting of the connections to paydb.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	err = s.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}
