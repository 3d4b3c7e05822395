package lockclient

import (
	"errors"
	"strings"
	"testing"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"
)

// The defaults of a process leave little: 15 s less the margin are 10.5 s, for steps that may take 10 s. Renewals that
// came as seldom as they may would leave a working holder idle for most of its time.
func TestALeaseThatIsRenewedInTimeAlwaysCoversTheLongestStep(t *testing.T) {
	const step = 10 * time.Second
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", 15*time.Second)
		c.longestStep = step
		n.setFate(func(wire.Call) fate { return fate{delay: 20 * time.Millisecond, answerDelay: 20 * time.Millisecond} })
		l := mustAcquire(t, c, "k", 30*time.Second, 0)
		for range 6000 {
			time.Sleep(10 * time.Millisecond)
			if err := l.CheckStillHeld(step); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestStepsThatNoLeaseCoversAreRefusedAtOnce(t *testing.T) {
	o := Options{BaseURL: "http://127.0.0.1:1", OwnerID: "a", SessionTTL: 10 * time.Second, Margin: 0.3, LongestStep: 7 * time.Second}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "7s") {
		t.Errorf("a session that counts for 7 s and a step of 7 s: %v", err)
	}
	o.LongestStep = 7*time.Second - time.Millisecond
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(t.Context(), "k", 9*time.Second, 0); err == nil || errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("a lease that counts for 6.3 s and a step of 6.999 s: %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
