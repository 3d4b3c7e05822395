package local

import (
	"context"
	"errors"
	"testing"
	"time"
)

// The proxy hangs when it is asked, and does what it was asked when nobody waits for it any more.
func TestALinkHealsAfterItsProxyWasWaitedForInVain(t *testing.T) {
	impatient := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	_, l := serveEcho(t)
	works := func() {
		t.Helper()
		c := call(t, l)
		c.say("a")
		c.hears("a")
	}
	l.proxy.Toxics.Lock()
	for range 2 {
		if err := l.Cut(impatient(), Both); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a cut that hangs: %v", err)
		}
	}
	l.proxy.Toxics.Unlock()
	must(t, l.Heal(t.Context()))
	works()

	must(t, l.Cut(t.Context(), Both))
	l.proxy.Toxics.Lock()
	for range 2 {
		if err := l.Heal(impatient()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a healing that hangs: %v", err)
		}
	}
	l.proxy.Toxics.Unlock()
	must(t, l.Heal(t.Context()))
	works()

	must(t, l.Cut(t.Context(), ToServer))
	must(t, l.Cut(t.Context(), ToServer)) // it is on already
	must(t, l.Heal(t.Context()))
	works()
}
