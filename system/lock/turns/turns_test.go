package turns

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
)

func TestOneKeyGoesOneAtATimeAndOthersGoBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New()
		done, err := turns.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := turns.Take(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		inside := 0
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				done, err := turns.Take(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				if inside++; inside != 1 {
					t.Errorf("%d at once", inside)
				}
				inside--
				done()
			})
		}
		synctest.Wait()
		if inside != 0 {
			t.Fatal("somebody overtook the holder")
		}
		done()
		wg.Wait()
		if len(turns.keys) != 0 {
			t.Fatalf("%d keys are remembered", len(turns.keys))
		}
	})
}

func TestWhoGivesUpLeavesTheTurnToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New()
		done, err := turns.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := turns.Take(ctx, "a"); err == nil {
				t.Error("it was given a turn that is taken")
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		done()
		next, err := turns.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		next()
		if len(turns.keys) != 0 {
			t.Fatalf("%d keys are remembered", len(turns.keys))
		}
	})
}
