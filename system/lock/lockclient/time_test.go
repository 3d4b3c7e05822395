package lockclient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"
)

func heartbeat(c wire.Call) bool { return strings.HasSuffix(c.Path, "/heartbeat") }
func renewal(c wire.Call) bool   { return strings.HasSuffix(c.Path, "/renew") }
func acquisition(c wire.Call) bool {
	return strings.HasSuffix(c.Path, "/acquire")
}

func TestALeaseIsHeldForAsLongAsItsRenewalsSucceed(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, _ := v.client("a", time.Second)
		l := mustAcquire(t, c, "k", time.Second, 0)
		for range 1000 {
			time.Sleep(37 * time.Millisecond)
			if err := l.CheckStillHeld(300 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if !v.store.carries("k", l.Token()) {
				t.Fatal("the server holds no such grant")
			}
		}
		if err := l.Release(t.Context()); err != nil || v.store.held("k") {
			t.Fatalf("after the release: %v, held %t", err, v.store.held("k"))
		}
		mustBe(t, l.CheckStillHeld(0), ErrReleased)
		if closed(l.Lost()) {
			t.Fatal("a lease that was released is not lost")
		}
	})
}

func TestTheDeadlineCountsFromTheSendAndNotFromTheAnswer(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", time.Minute)
		n.setFate(func(call wire.Call) fate {
			if acquisition(call) {
				return fate{delay: 100 * time.Millisecond, answerDelay: 300 * time.Millisecond}
			}
			return fate{lost: renewal(call)}
		})
		l := mustAcquire(t, c, "k", 4*time.Second, 0) // 0.7 × 4 s − 0.4 s = 2.4 s are left
		if err := l.CheckStillHeld(2399 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		mustBe(t, l.CheckStillHeld(2400*time.Millisecond), ErrTooLittleLeft)
		time.Sleep(2399 * time.Millisecond)
		if err := l.CheckStillHeld(0); err != nil || closed(l.Lost()) {
			t.Fatalf("just before the deadline: %v", err)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if mustBe(t, l.CheckStillHeld(0), ErrLost); !closed(l.Lost()) {
			t.Fatal("Lost was not told at the deadline")
		}
		if !v.store.carries("k", l.Token()) {
			t.Fatal("the deadline is not before the server's expiry")
		}
	})
}

func TestARenewalWhoseAnswerIsLostExtendsNothing(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", time.Minute)
		n.setFate(func(call wire.Call) fate { return fate{answerLost: renewal(call)} })
		l := mustAcquire(t, c, "k", 10*time.Second, 0)
		start := time.Now()
		<-l.Lost()
		if got := time.Since(start); got != 7*time.Second {
			t.Fatalf("lost after %s", got)
		}
		if err := l.Release(t.Context()); err != nil || v.store.held("k") {
			t.Fatalf("after the release: %v, held %t", err, v.store.held("k"))
		}
	})
}

func TestAFailedHeartbeatNeverExtendsAndALostSessionLosesItsLeases(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", 10*time.Second)
		n.setFate(func(call wire.Call) fate { return fate{lost: heartbeat(call)} })
		start := time.Now()
		l1 := mustAcquire(t, c, "k1", time.Second, 0)
		l2 := mustAcquire(t, c, "k2", time.Second, 0)
		<-l1.Lost()
		<-l2.Lost()
		if got := time.Since(start); got != 7*time.Second {
			t.Fatalf("lost after %s", got)
		}
		mustBe(t, l1.CheckStillHeld(0), ErrLost)
		synctest.Wait() // the session is closed at the server as well: nobody need wait for its TTL
		if v.store.held("k1") || v.store.held("k2") || !v.logged(`"event":"session_lost"`) {
			t.Fatal("the lost session still holds its grants")
		}
		n.setFate(nil)
		l := mustAcquire(t, c, "k1", time.Second, 0)
		if l.s.id == l1.s.id {
			t.Fatal("the next acquire used the lost session")
		}
	})
}

func TestASessionThatTheServerCallsDeadIsReplacedByTheNextAcquire(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, _ := v.client("a", time.Minute)
		l := mustAcquire(t, c, "k", time.Second, 0)
		if err := v.store.CloseSession(t.Context(), l.s.id); err != nil {
			t.Fatal(err)
		}
		again := mustAcquire(t, c, "other", time.Second, 0)
		if again.s == l.s || !closed(l.Lost()) {
			t.Fatal("the dead session was not given up")
		}
		mustBe(t, l.CheckStillHeld(0), ErrLost)
	})
}

func TestAGrantThatHadToWaitIsRenewedBeforeUse(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		a, _ := v.client("a", time.Second)
		b, n := v.client("b", time.Minute)
		first := mustAcquire(t, a, "k", time.Second, 0)
		go func() {
			time.Sleep(5 * time.Second)
			if err := first.Release(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		l := mustAcquire(t, b, "k", 2*time.Second, 20*time.Second)
		if err := l.CheckStillHeld(1399 * time.Millisecond); err != nil { // all of 0.7 × 2 s
			t.Fatal(err)
		}
		log := n.noted()
		if got := log[len(log)-1]; got != "answer POST /v1/locks/k/renew" {
			t.Fatalf("the last thing before use was %q", got)
		}
	})
}

func TestACallerThatGivesUpIsNotKeptWaitingAndItsLateGrantIsGivenBack(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		a, _ := v.client("a", time.Second)
		b, n := v.client("b", time.Second)
		first := mustAcquire(t, a, "k", time.Second, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := b.Acquire(ctx, "k", time.Second, 10*time.Second)
		mustBe(t, err, context.DeadlineExceeded)
		if got := time.Since(start); got != time.Second {
			t.Fatalf("it returned after %s", got)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if v.store.held("k") {
			t.Fatal("the late grant was kept")
		}
		if log := strings.Join(n.noted(), "\n"); !strings.Contains(log, "answer DELETE /v1/locks/k") {
			t.Fatalf("it was not given back:\n%s", log)
		}
	})
}

func TestAnAcquireWhoseAnswerIsLostIsUnknownAndTheSameSessionGetsTheKeyAgain(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", time.Minute)
		n.setFate(func(call wire.Call) fate { return fate{answerLost: acquisition(call)} })
		_, err := c.Acquire(t.Context(), "k", time.Minute, 0)
		mustBe(t, err, lock.ErrUnavailable)
		if !v.store.held("k") {
			t.Fatal("the server granted nothing")
		}
		n.setFate(nil)
		if l := mustAcquire(t, c, "k", time.Minute, 0); l.Token() != 2 {
			t.Fatalf("token %d", l.Token())
		}
	})
}

func TestOneAcquireOfAKeyGoesAtATime(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", time.Minute)
		n.setFate(func(call wire.Call) fate {
			if acquisition(call) {
				return fate{answerDelay: 50 * time.Millisecond}
			}
			return fate{}
		})
		done := make(chan struct{})
		for range 2 {
			go func() {
				if _, err := c.Acquire(context.WithoutCancel(t.Context()), "k", time.Second, 0); err != nil {
					t.Error(err)
				}
				done <- struct{}{}
			}()
		}
		<-done
		<-done
		open := 0
		for _, what := range n.noted() {
			switch what {
			case "send POST /v1/locks/k/acquire":
				if open++; open > 1 {
					t.Fatalf("two acquires of one key at once: %v", n.noted())
				}
			case "answer POST /v1/locks/k/acquire":
				open--
			}
		}
	})
}

func TestReEntryMakesTheEarlierLeaseBeOver(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, _ := v.client("a", time.Minute)
		l1 := mustAcquire(t, c, "k", time.Second, 0)
		l2 := mustAcquire(t, c, "k", time.Second, 0)
		if mustBe(t, l1.CheckStillHeld(0), ErrLost); !closed(l1.Lost()) || l2.Token() <= l1.Token() {
			t.Fatal("the earlier lease is not over")
		}
		if err := l1.Release(t.Context()); err != nil || !v.store.carries("k", l2.Token()) {
			t.Fatalf("the earlier lease's release took the later one away: %v", err)
		}
		if !v.logged(`"event":"lock_released"`, `"fencingToken":1`, `"stale":true`) {
			t.Fatal("the stale release was not logged as such")
		}
	})
}

func TestReleaseWaitsForTheRenewalThatIsOnItsWay(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", time.Minute)
		l := mustAcquire(t, c, "k", 4*time.Second, 0)
		n.setFate(func(call wire.Call) fate {
			if renewal(call) {
				return fate{delay: 300 * time.Millisecond, answerDelay: 300 * time.Millisecond}
			}
			return fate{}
		})
		time.Sleep(1200 * time.Millisecond) // the renewal was sent at 0.9 s to 1.1 s
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		var order []string
		for _, what := range n.noted() {
			if strings.HasSuffix(what, "/renew") || strings.Contains(what, "DELETE") {
				order = append(order, what)
			}
		}
		want := "[send POST /v1/locks/k/renew answer POST /v1/locks/k/renew send DELETE /v1/locks/k answer DELETE /v1/locks/k]"
		if got := fmt.Sprint(order); got != want {
			t.Fatalf("the order was %s", got)
		}
	})
}

func TestARequestThatArrivesTwiceLosesTheLeaseAndNothingElse(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, n := v.client("a", time.Minute)
		n.setFate(func(call wire.Call) fate { return fate{twice: acquisition(call)} })
		l := mustAcquire(t, c, "k", time.Second, 0) // the second arrival has minted a higher token for nobody
		<-l.Lost()
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.setFate(func(wire.Call) fate { return fate{} })
		if l := mustAcquire(t, c, "k", time.Second, 2*time.Second); l.Token() != 3 {
			t.Fatalf("token %d", l.Token())
		}
	})
}

func TestCloseEndsEverythingInOneStep(t *testing.T) {
	inTown(t, func(t *testing.T, v *town) {
		c, _ := v.client("a", time.Minute)
		other, _ := v.client("b", time.Minute)
		l := mustAcquire(t, c, "k", time.Second, 0)
		theirs := mustAcquire(t, other, "theirs", time.Second, 0)
		waiting := make(chan error)
		go func() {
			_, err := c.Acquire(context.WithoutCancel(t.Context()), "theirs", time.Second, 30*time.Second)
			waiting <- err
		}()
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustBe(t, <-waiting, ErrClosed)
		if v.store.held("k") || !closed(l.Lost()) || !v.store.carries("theirs", theirs.Token()) {
			t.Fatal("the wrong things are held after Close")
		}
		_, err := c.Acquire(t.Context(), "k", time.Second, 0)
		mustBe(t, err, ErrClosed)
		if n := len(v.store.sessions); n != 1 {
			t.Fatalf("%d sessions are left", n)
		}
	})
}

// Whatever the network does: while CheckStillHeld says yes, the server holds the key for our session. It may be under a
// higher token, when an acquire arrived twice or so late that its caller had given up (rule 9).
func TestWhatIsHeldHereIsHeldThere(t *testing.T) {
	for seed := range uint64(30) {
		inTown(t, func(t *testing.T, v *town) {
			checks, done := 0, make(chan int)
			for i := range uint64(3) {
				c, n := v.client(fmt.Sprint("owner-", i), time.Second)
				messages := rand.New(rand.NewPCG(seed, i)) // drawn from under the network's lock
				n.setFate(func(wire.Call) fate { return drawFate(messages) })
				go func() { done <- useLocks(t, v, c, rand.New(rand.NewPCG(seed, i+100))) }()
			}
			for range 3 {
				checks += <-done
			}
			if checks == 0 {
				t.Fatalf("seed %d: nothing was ever held", seed)
			}
		})
	}
}

// drawFate loses, doubles and delays a good part of all messages, some beyond every deadline.
func drawFate(r *rand.Rand) fate {
	f := fate{delay: time.Duration(r.IntN(20)) * time.Millisecond, answerDelay: time.Duration(r.IntN(20)) * time.Millisecond}
	switch p := r.IntN(100); {
	case p < 8:
		f.lost = true
	case p < 16:
		f.answerLost = true
	case p < 20:
		f.twice = true
	case p < 30:
		f.delay = time.Duration(r.IntN(1500)) * time.Millisecond
	case p < 40:
		f.answerDelay = time.Duration(r.IntN(1500)) * time.Millisecond
	}
	return f
}

// useLocks acquires, checks and releases for a while; it counts how often it held something.
func useLocks(t *testing.T, v *town, c *Client, r *rand.Rand) (held int) {
	ctx := context.WithoutCancel(t.Context())
	for range 20 {
		key := fmt.Sprint("k", r.IntN(2))
		limited, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(4000))*time.Millisecond)
		l, err := c.Acquire(limited, key, time.Second, time.Duration(r.IntN(3000))*time.Millisecond)
		cancel()
		if err != nil {
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			continue
		}
		for range r.IntN(40) {
			if l.CheckStillHeld(0) == nil {
				held++
				if !v.store.heldBy(key, l.s.id) {
					t.Errorf("%s believes that it holds %s with token %d, and does not", c.ownerID, key, l.Token())
				}
			}
			time.Sleep(time.Duration(1+r.IntN(60)) * time.Millisecond)
		}
		if err := l.Release(ctx); err != nil {
			time.Sleep(time.Second)
		}
	}
	return held
}
