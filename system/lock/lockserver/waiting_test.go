package lockserver_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

func (v *service) waiters(key string) string {
	return v.do("GET", "/v1/locks/"+key, "").want(200).field("waiterCount")
}

func TestAWaiterIsGrantedWhatTheHolderReleases(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		a, b := v.session("a", 60000), v.session("b", 60000)
		token := v.acquire("k", "a", a, 60000, 0).want(200).field("fencingToken")
		got := make(chan reply)
		go func() {
			r, err := v.send(context.Background(), "POST", "/v1/locks/k/acquire", acquireBody(b, 60000, 30000), "X-Owner-Id: b")
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		eventually(t, "a waiter is counted", func() bool { return v.waiters("k") == "1" })
		v.release("k", "a", a, token).want(204)
		(<-got).want(200, `"ownerId":"b"`)
		if v.waiters("k") != "0" {
			t.Fatal("the waiter is still counted")
		}
	})
}

// A second server on the same backend hears of the release, or finds out by itself.
func TestAWaiterAtAnotherServerIsGrantedToo(t *testing.T) {
	onBoth(t, func(t *testing.T, on backend) {
		v := on.serve(t, 100)
		w := on.serve(t, 100)
		a, b := v.session("a", 60000), v.session("b", 60000)
		token := v.acquire("k", "a", a, 60000, 0).want(200).field("fencingToken")
		got := make(chan reply)
		go func() {
			r, err := w.send(context.Background(), "POST", "/v1/locks/k/acquire", acquireBody(b, 60000, 30000), "X-Owner-Id: b")
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		eventually(t, "a waiter is counted", func() bool { return w.waiters("k") == "1" })
		v.release("k", "a", a, token).want(204)
		(<-got).want(200, `"ownerId":"b"`)
	})
}

func TestAWaitThatRunsOutIsContended(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		a, b := v.session("a", 60000), v.session("b", 60000)
		v.acquire("k", "a", a, 60000, 0).want(200)
		v.acquire("k", "b", b, 60000, 50).want(409, "LOCK_CONTENDED", `"holder":"a"`)
		if v.waiters("k") != "0" {
			t.Fatal("the waiter is still counted")
		}
	})
}

func TestAWaiterTakesOverWhatExpires(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		a, b := v.session("a", 60000), v.session("b", 60000)
		first := v.acquire("k", "a", a, 1000, 0).want(200)
		second := v.acquire("k", "b", b, 1000, 10000).want(200)
		x, _ := strconv.ParseInt(first.field("fencingToken"), 10, 64)
		y, _ := strconv.ParseInt(second.field("fencingToken"), 10, 64)
		if y <= x {
			t.Fatalf("token %d after %d", y, x)
		}
		eventually(t, "the lease that ran out is in the log", func() bool {
			return v.logged("lease_expired", `"ownerId":"a"`, fmt.Sprintf(`"fencingToken":%d`, x))
		})
	})
}

func TestADeadSessionLosesItsGrantsAndTheLogSaysSo(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		a, b := v.session("a", 1000), v.session("b", 60000)
		v.acquire("k", "a", a, 60000, 0).want(200)
		v.acquire("k", "b", b, 1000, 10000).want(200, `"ownerId":"b"`)
		eventually(t, "the lost session is in the log", func() bool { return v.logged("session_lost", a) })
		v.acquire("k", "a", a, 1000, 0).want(404, "SESSION_UNKNOWN")
	})
}

func TestAWaiterWhoseSessionEndsIsToldSo(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		a, b := v.session("a", 60000), v.session("b", 60000)
		v.acquire("k", "a", a, 60000, 0).want(200)
		got := make(chan reply)
		go func() {
			r, err := v.send(context.Background(), "POST", "/v1/locks/k/acquire", acquireBody(b, 60000, 30000), "X-Owner-Id: b")
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		eventually(t, "a waiter is counted", func() bool { return v.waiters("k") == "1" })
		v.do("DELETE", "/v1/sessions/"+b, "{}").want(204)
		(<-got).want(404, "SESSION_UNKNOWN")
	})
}

// Waiters that vanish leave nothing: no place in the queue, and no grant.
func TestWaitersThatVanishLeaveNothing(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		a := v.session("a", 60000)
		token := v.acquire("k", "a", a, 60000, 0).want(200).field("fencingToken")
		ctx, cancel := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		for i := range 10 {
			owner := fmt.Sprint("b", i)
			s := v.session(owner, 60000)
			gone.Go(func() {
				if r, err := v.send(ctx, "POST", "/v1/locks/k/acquire", acquireBody(s, 60000, 30000), "X-Owner-Id: "+owner); err == nil {
					t.Errorf("got %d %s", r.status, r.body)
				}
			})
		}
		eventually(t, "ten waiters are counted", func() bool { return v.waiters("k") == "10" })
		cancel()
		gone.Wait()
		eventually(t, "no waiter is counted", func() bool { return v.waiters("k") == "0" })
		v.release("k", "a", a, token).want(204)
		v.acquire("k", "a", a, 60000, 0).want(200)
	})
}

// The client goes away in the moment in which its grant is made. An answer that was written before may have been read or
// not, and nobody can tell; so the client, as any would, asks again under its session. But a grant whose client was gone by
// then is given back by the server itself, of which the rounds go on until one is seen.
func TestAGrantThatItsClientCannotReceiveIsGivenBack(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		a, b := v.session("a", 60000), v.session("b", 60000)
		byB, released := 0, func() int { return v.count(`"event":"lock_released"`, `"ownerId":"b"`) }
		for round := 0; round < 300 && released() == byB; round++ {
			token := v.acquire("k", "a", a, 60000, 10000).want(200).field("fencingToken")
			ctx, cancel := context.WithCancel(t.Context())
			received := make(chan string, 1)
			go func() {
				defer close(received)
				r, err := v.send(ctx, "POST", "/v1/locks/k/acquire", acquireBody(b, 60000, 30000), "X-Owner-Id: b")
				if err == nil && r.status == 200 {
					received <- r.field("fencingToken")
				}
			}()
			eventually(t, "a waiter is counted", func() bool { return v.waiters("k") == "1" })
			go cancel()
			v.release("k", "a", a, token).want(204)
			token, ok := <-received
			cancel()
			if ok {
				v.release("k", "b", b, token).want(204)
			} else {
				token = v.acquire("k", "b", b, 60000, 10000).want(200).field("fencingToken")
				// The first request may still be on its way, enter again after the second, and be given back: 409.
				if r := v.release("k", "b", b, token); r.status != 204 {
					r.want(409, "LOCK_LOST")
				}
			}
			byB++
		}
		if released() == byB {
			t.Fatal("no grant was given back by the server")
		}
		eventually(t, "the key is free", func() bool { return v.do("GET", "/v1/locks/k", "").field("held") == "false" })
	})
}

func TestAKeyHasOnlySoManyWaiters(t *testing.T) {
	onBoth(t, func(t *testing.T, on backend) {
		v := on.serve(t, 2)
		a := v.session("a", 60000)
		token := v.acquire("k", "a", a, 60000, 0).want(200).field("fencingToken")
		var all sync.WaitGroup
		for i := range 2 {
			owner := fmt.Sprint("b", i)
			s := v.session(owner, 60000)
			all.Go(func() {
				r, err := v.send(context.Background(), "POST", "/v1/locks/k/acquire", acquireBody(s, 60000, 20000), "X-Owner-Id: "+owner)
				if err != nil || r.status != 200 {
					t.Errorf("got %d %s, %v", r.status, r.body, err)
					return
				}
				v.release("k", owner, s, r.field("fencingToken")).want(204)
			})
		}
		eventually(t, "two waiters are counted", func() bool { return v.waiters("k") == "2" })
		c := v.session("c", 60000)
		v.acquire("k", "c", c, 60000, 20000).want(429, "CONTENTION_EXCEEDED", `"retrySafe":true`, `"retryAfterMillis"`)
		v.acquire("k", "c", c, 60000, 0).want(409, "LOCK_CONTENDED")
		v.release("k", "a", a, token).want(204)
		all.Wait()
	})
}

// Each of many waiters is granted once, in its turn, and none is forgotten.
func TestAHundredWaitersAreAllGrantedInTheEnd(t *testing.T) {
	served(t, func(t *testing.T, v *service) {
		var all sync.WaitGroup
		var mu sync.Mutex
		inside, last := 0, int64(0)
		for i := range 100 {
			owner := fmt.Sprint("b", i)
			s := v.session(owner, 60000)
			all.Go(func() {
				r, err := v.send(context.Background(), "POST", "/v1/locks/k/acquire", acquireBody(s, 60000, 30000), "X-Owner-Id: "+owner)
				if err != nil || r.status != 200 {
					t.Errorf("got %d %s, %v", r.status, r.body, err)
					return
				}
				token, _ := strconv.ParseInt(r.field("fencingToken"), 10, 64)
				mu.Lock()
				if inside++; inside != 1 || token <= last {
					t.Errorf("%d inside, token %d after %d", inside, token, last)
				}
				last = token
				mu.Unlock()
				time.Sleep(time.Millisecond) // the work under the lock
				mu.Lock()
				inside--
				mu.Unlock()
				v.release("k", owner, s, r.field("fencingToken")).want(204)
			})
		}
		all.Wait()
	})
}
