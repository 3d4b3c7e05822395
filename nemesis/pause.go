package nemesis

// Pause: a stopped process executes nothing and answers nothing; when it goes on, it goes on where it was.

import "context"

// pause is SIGSTOP, then SIGCONT. The monotonic clock runs on while a process is stopped, so its leases run out.
type pause struct{ p Process }

func (f pause) inject(ctx context.Context) error { return f.p.Pause(ctx) }
func (f pause) heal(ctx context.Context) error   { return f.p.Resume(ctx) }
