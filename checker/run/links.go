package run

import (
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/wiretap"
	"fenceproof/nemesis"
	"fenceproof/nemesis/plan"
)

// Links finds the wiretaps of the links that a plan names.
func (t target) Links(l contract.Link) ([]nemesis.Link, error) {
	t.evidence.mu.Lock()
	defer t.evidence.mu.Unlock()
	var found []nemesis.Link
	for _, tap := range t.evidence.taps {
		if at := tap.Link(); at == l || at.To == l.To && (l.From == plan.AnyExecutor && at.From.IsExecutor() || l.From == plan.AnyLockClient && at.From.IsLockClient()) {
			found = append(found, tapped{tap})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no link %s", l)
	}
	return found, nil
}

// tapped is a wiretap as the nemesis uses one.
type tapped struct{ relay *wiretap.Relay }

func (t tapped) Name() contract.Link { return t.relay.Link() }

func (t tapped) Meet(m nemesis.Message) (nemesis.Meeting, error) {
	rule := wiretap.Rule{Side: wiretap.Side(m.Side), Op: m.Op, Payout: m.Payout, Nth: m.Nth, Action: wiretap.Hold, Claim: m.Claim}
	switch m.Fate {
	case nemesis.Lost:
		rule.Action = wiretap.Drop
	case nemesis.Repeated:
		rule.Action, rule.Delay = wiretap.Duplicate, plan.MaxDrive // until it is released
	}
	a, err := t.relay.Apply(rule)
	if err != nil {
		return nil, err
	}
	return a, nil
}
