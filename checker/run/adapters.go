package run

import (
	"context"
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/deploy/local"
	"fenceproof/nemesis"
)

// target shows the stack to the nemesis as what the nemesis needs of one.
type target struct {
	*local.Stack
	evidence *evidence
	seed     uint64    // of the run
	operator *operator // nil where the plan has no use for one
}

func (t target) Process(name contract.Process) (nemesis.Process, error) {
	p, err := t.Stack.Process(string(name))
	if err != nil {
		return nil, fmt.Errorf("find process %s: %w", name, err)
	}
	return p, nil
}

// Leader asks the stack who leads.
func (t target) Leader(ctx context.Context) (contract.Process, error) {
	name, err := t.Stack.EtcdLeader(ctx)
	return contract.Process(name), err
}

// Volume finds what keeps a database's data.
func (t target) Volume(name contract.Process) (nemesis.Volume, error) {
	v, err := t.Stack.Volume(string(name))
	if err != nil {
		return nil, fmt.Errorf("find the volume of %s: %w", name, err)
	}
	return v, nil
}

// volumes says how large the volumes of those databases are whose disks are to be filled.
func volumes(c Config) map[string]int64 {
	all := map[string]int64{}
	for _, name := range c.Plan.Volumes() {
		all[string(name)] = c.Plan.Volume()
	}
	return all
}

// environment gives the stack the run's variables under the stack's own names.
func environment(c Config) map[string]map[string]string {
	env := map[string]map[string]string{}
	for p, vars := range services(c) {
		env[string(p)] = vars
	}
	return env
}
