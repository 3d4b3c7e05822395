package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestOneHoldsTheLockAndTheNextOneWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*look)
	defer cancel()
	if _, err := Lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the second one: %v", err)
	}
	second := make(chan error, 1)
	go func() {
		unlock, err := Lock(context.WithoutCancel(ctx), path)
		if err == nil {
			unlock()
		}
		second <- err
	}()
	unlock()
	select {
	case err := <-second:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the lock was given back and is not to be had")
	}
}
