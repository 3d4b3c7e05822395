package lockclient

import (
	"testing"
	"testing/synctest"
	"time"

	"fenceproof/system/wire"
)

// The process was stopped while its request was on the way: the answer is good, and too late.
func TestAnAnswerAfterTheDeadlineExtendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := newHold(time.Second, start)
		sent := start.Add(900 * time.Millisecond)
		time.Sleep(1100 * time.Millisecond)
		mustBe(t, h.extend(sent, time.Now()), ErrLost)
		if _, err := h.left(start); err == nil || !closed(h.over) {
			t.Fatal("it is held again")
		}
	})
}

func TestAnEarlierSendNeverShortensADeadline(t *testing.T) {
	start := time.Now()
	h := newHold(time.Second, start)
	if err := h.extend(start.Add(500*time.Millisecond), start); err != nil {
		t.Fatal(err)
	}
	if err := h.extend(start.Add(100*time.Millisecond), start); err != nil {
		t.Fatal(err)
	}
	if left, err := h.left(start); err != nil || left != 1500*time.Millisecond {
		t.Fatalf("%s are left, %v", left, err)
	}
}

func TestARenewedDeadlineCountsFromTheRenewalsSend(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", time.Minute)
		var sent time.Time
		renewals := 0
		n.setFate(func(call wire.Call) fate {
			if !renewal(call) {
				return fate{}
			}
			if renewals++; renewals > 1 {
				return fate{lost: true}
			}
			sent = time.Now()
			return fate{delay: 100 * time.Millisecond, answerDelay: 300 * time.Millisecond}
		})
		l := mustAcquire(t, c, "k", 4*time.Second, 0)
		<-l.Lost()
		if got := time.Since(sent); got != 2800*time.Millisecond {
			t.Fatalf("lost %s after the send of the one renewal that succeeded", got)
		}
	})
}

func TestALeaseIsNoLongerThanItsSession(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, _ := v.client("a", 2*time.Second)
		l := mustAcquire(t, c, "k", time.Minute, 0)
		if err := l.CheckStillHeld(1399 * time.Millisecond); err != nil { // all but a little of 0.7 × 2 s
			t.Fatal(err)
		}
		mustBe(t, l.CheckStillHeld(1400*time.Millisecond), ErrTooLittleLeft)
	})
}
