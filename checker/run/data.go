package run

import (
	"context"

	"fenceproof/checker/verdict"
	"fenceproof/deploy/local"
)

// dataOutlivesServers tells whether the databases' data stay when their servers are stopped. Nobody knows the verdict by then: what
// is judged by the end of the history, and by an order of all calls, is found behind it. A watched run has a short life and
// many like it, and keeps none.
func (c Config) dataOutlivesServers() bool { return c.Keep || c.Watch == nil }

// dropData removes the databases' data behind a run that came out as it should: a pass, a control that has shown what it was
// asked for, a violation that its nemesis declares. Behind every other one they show how it came to it, and stay. So they do
// behind a harness that was killed while it judged: clean removes them with the run.
func (r *state) dropData(v *verdict.Run) error {
	if r.cfg.Keep || v.Exit != verdict.ExitPass {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return local.RemoveData(ctx, r.dir)
}
