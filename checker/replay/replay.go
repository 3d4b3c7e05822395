// Package replay takes from a recorded run what it was told to do, so that it can be done again.
package replay

import (
	"errors"
	"fmt"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/run"
	"fenceproof/nemesis/plan"
)

// Of reads the plan, the fencing and the expectation of the run in the folder dir from its history, which holds them even
// when nothing else of the run was written. Everything else of the configuration is the caller's. The error says what the
// history lacks; a plan that this version refuses is refused.
func Of(dir string) (run.Config, error) {
	r, err := history.Open(run.HistoryDir(dir))
	if err != nil {
		return run.Config{}, fmt.Errorf("replay %s: %w", dir, err)
	}
	defer r.Close()
	cfg, err := of(r.Header())
	if err != nil {
		return run.Config{}, fmt.Errorf("replay %s: %w", dir, err)
	}
	return cfg, nil
}

func of(h history.Header) (cfg run.Config, err error) {
	if len(h.Plan) == 0 {
		return cfg, errors.New("the history's header has no \"plan\": it does not say what the run was told to do")
	}
	if cfg.Plan, err = plan.Parse(h.Plan); err != nil {
		return cfg, err
	}
	told, err := run.ReadRecorded(h)
	if err != nil {
		return cfg, err
	}
	cfg.Fencing, cfg.Expect = run.FencingOn, told.Expect
	if f := run.Fencing(told.Settings.Fencing); f != "" { // a run without payouts has none
		if cfg.Fencing = f; !slices.Contains(run.Fencings(), f) {
			return cfg, fmt.Errorf("the history's header says fencing %q%s", f, contract.Meant(string(f), run.Fencings()))
		}
	}
	return cfg, cfg.Check()
}
