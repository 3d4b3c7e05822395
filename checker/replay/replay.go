// Package replay takes from a recorded run what it was told to do, so that it can be done again.
package replay

import (
	"encoding/json"
	"errors"
	"fmt"

	"fenceproof/checker/history"
	"fenceproof/checker/run"
	"fenceproof/checker/verdict"
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
	if len(h.Plan) == 0 || len(h.Config) == 0 {
		return cfg, errors.New("its history does not say what the run was told to do: the header lacks \"plan\" or \"config\"")
	}
	if cfg.Plan, err = plan.Parse(h.Plan); err != nil {
		return cfg, err
	}
	var told struct {
		Settings verdict.Settings     `json:"settings"`
		Expect   *verdict.Expectation `json:"expect"`
	}
	if err := json.Unmarshal(h.Config, &told); err != nil {
		return cfg, fmt.Errorf("read the settings in the history's header: %w", err)
	}
	cfg.Fencing, cfg.Expect = run.FencingOn, told.Expect
	if f := told.Settings.Fencing; f != "" { // a run without payouts has none
		cfg.Fencing = run.Fencing(f)
	}
	return cfg, nil
}
