package local

import (
	"context"
	"errors"
	"testing"
	"time"

	"fenceproof/deploy/postgres/postgrestest"
)

func TestAQuestionShowsWhetherALinkToAServerWorks(t *testing.T) {
	pg := postgrestest.Start(t)
	l, err := newLink(LockServer, LockDB, pg.Address(), nil)
	must(t, err)
	defer func() { must(t, l.close(context.WithoutCancel(t.Context()))) }()
	ask := func() *Question {
		q, err := l.Ask(t.Context())
		must(t, err)
		t.Cleanup(q.Close)
		return q
	}
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	must(t, ask().Answer(t.Context()))
	must(t, l.Hold(t.Context(), ToClient))
	held := ask()
	if err := held.Answer(soon()); !errors.Is(err, ErrSilent) {
		t.Errorf("held: %v", err)
	}
	must(t, l.Heal(t.Context()))
	must(t, held.Answer(t.Context()))
	must(t, l.Cut(t.Context(), Both))
	if err := ask().Answer(soon()); !errors.Is(err, ErrSilent) {
		t.Errorf("cut: %v", err)
	}
	must(t, l.Heal(t.Context()))
	must(t, l.Reset(t.Context(), Both))
	if err := ask().Answer(t.Context()); err == nil || errors.Is(err, ErrSilent) {
		t.Errorf("reset: %v", err)
	}
	must(t, l.Heal(t.Context()))
	must(t, ask().Answer(t.Context()))
}
