package proxy

import "time"

// SetRecordTimeout shortens the tries to commit an outcome, for tests in which they cannot succeed.
func (p *Proxy) SetRecordTimeout(d time.Duration) { p.recordTimeout = d }
