package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/linear"
	"fenceproof/checker/witness"
	"fenceproof/nemesis/plan"
)

// logOf is the witness of one epoch, which does what witnesses say they do.
type logOf struct {
	e     *evidence
	epoch int
	lost  bool // it does not find the end of its epoch
}

func (l *logOf) Detach(context.Context) error {
	if !l.lost {
		return nil
	}
	l.e.rec.Record(history.LockDB, history.Event{Type: contract.Info, Proc: contract.LockDB, Op: history.OpLostPlace, Epoch: l.epoch, Msg: "its slot is gone"})
	return fmt.Errorf("%w: its slot is gone", witness.ErrLost)
}

func (l *logOf) Close(ctx context.Context) error {
	err := l.Detach(ctx)
	if err == nil {
		l.e.rec.Complete(history.LockDB)
	}
	return err
}

// Whatever happens to the lock store's witness between two epochs, no gap of its looks like evidence that is whole, however well
// the last epoch ended.
func TestAGapBetweenTwoEpochsIsAGapOfTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		lost   bool  // the first epoch's end is not known
		refuse error // nobody can watch the second
		third  bool  // another epoch follows, which is whole
		open   bool  // the run ends while nobody watches
		gap    string
	}{
		"both epochs are whole":             {},
		"three are":                         {third: true},
		"the end of the first is not known": {lost: true, gap: "its slot is gone"},
		"the end of the first is not known, and the third is": {lost: true, third: true, gap: "its slot is gone"},
		"nobody watches the second":                           {refuse: errors.New("no answer"), gap: "nobody watches the lock store since it was put back: no answer"},
		"nobody watches the second, and the third is whole":   {refuse: errors.New("no answer"), third: true, gap: "nobody watches the lock store since it was put back: no answer"},
		"the run ends between the two":                        {open: true, gap: "trailer"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e, err := openEvidence(dir, "run", Config{Plan: plan.Plan{Workload: plan.PayoutWorkload, Backend: plan.BackendPG, Drive: plan.Duration(time.Second)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			e.locksOnly = true // there is nobody else who watches
			follow := func(refuse error) func(context.Context, int) (log, error) {
				return func(_ context.Context, epoch int) (log, error) { return &logOf{e: e, epoch: epoch}, refuse }
			}
			e.lockLog = &logOf{e: e, lost: c.lost}
			if err := unlessLost(e.endEpoch(t.Context())); err != nil {
				t.Fatal(err)
			}
			if !c.open {
				if err := e.watchAnew(t.Context(), follow(c.refuse)); !errors.Is(err, c.refuse) {
					t.Fatal(err)
				}
			}
			if c.third {
				if err := unlessLost(e.endEpoch(t.Context())); err != nil {
					t.Fatal(err)
				}
				if err := e.watchAnew(t.Context(), follow(nil)); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			v, err := judge(dir, nil, linear.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Gaps[string(history.LockDB)]; (got != "") != (c.gap != "") || !strings.Contains(got, c.gap) {
				t.Errorf("the gap is %q, want %q", got, c.gap)
			}
			for _, i := range v.Invariants {
				if i.ID == "INV-04" && (i.Status == "inconclusive") != (c.gap != "") {
					t.Errorf("INV-04 is %s: %s", i.Status, i.Reason)
				}
			}
		})
	}
}

// A link of a service that is started meanwhile does not wait for a store that does not answer.
func TestALinkIsMadeWhileTheStoreIsNotWatchedYet(t *testing.T) {
	e, err := openEvidence(t.TempDir(), "run", Config{Plan: plan.Plan{Workload: plan.PayoutWorkload, Backend: plan.BackendPG, Drive: plan.Duration(time.Second)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.locksOnly = true
	err = e.watchAnew(t.Context(), func(_ context.Context, epoch int) (log, error) {
		made := make(chan error, 1)
		go func() {
			_, _, err := e.interpose("executor-1", "lock-server", "127.0.0.1:1")
			made <- err
		}()
		select {
		case err := <-made:
			return &logOf{e: e, epoch: epoch}, err
		case <-time.After(10 * time.Second):
			return nil, errors.New("the link waits")
		}
	})
	if err := errors.Join(err, e.collect(t.Context())); err != nil {
		t.Error(err)
	}
}
