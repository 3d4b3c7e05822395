package locktest

import (
	"fenceproof/system/lock"
)

// Rule 6.
func aRevokeIsAudited(w *world) {
	x := w.session("a", long)
	for _, expected := range []bool{true, false} {
		g := w.acquire(w.store, w.key("k"), x, long)
		want := int64(0)
		if expected {
			want = g.FencingToken
		}
		r, err := w.store.Revoke(w.Context(), g.Key, "olga", "stuck for an hour", want)
		if err != nil {
			w.Fatal(err)
		}
		if r.RevokedToken != g.FencingToken || r.NewTokenFloor <= g.FencingToken || r.OwnerID != "a" || r.ID == "" {
			w.Fatalf("got %+v", r)
		}
		w.free(g.Key)
		_, err = w.store.Renew(w.Context(), g.Key, g.FencingToken, 0)
		wantErr[*lock.LostError](w, err)
		next := w.acquire(w.another(), g.Key, w.session("b", long), long)
		if next.FencingToken < r.NewTokenFloor {
			w.Fatalf("token %d is below the floor %d", next.FencingToken, r.NewTokenFloor)
		}
		w.release(w.store, next)
		if got := w.backend.Audit(w.T, r.ID); got != (Audit{Key: g.Key, OwnerID: "a", Operator: "olga", Reason: "stuck for an hour", RevokedToken: g.FencingToken}) {
			w.Fatalf("the audit is %+v", got)
		}
	}
}

func aRevokeThatDoesNotFit(w *world) {
	x := w.session("a", long)
	g := w.acquire(w.store, w.key("k"), x, long)
	for _, other := range []int64{g.FencingToken + 1, g.FencingToken - 1} {
		_, err := w.store.Revoke(w.Context(), g.Key, "olga", "stuck for an hour", other)
		if m := wantErr[*lock.TokenMismatchError](w, err); m.StoredToken != g.FencingToken {
			w.Fatalf("got %+v", m)
		}
	}
	w.heldBy(g)
	_, err := w.store.Revoke(w.Context(), w.key("free"), "olga", "stuck for an hour", 0)
	w.wantIs(err, lock.ErrNotHeld)
	lapsing := w.acquire(w.store, w.key("lapsing"), x, short)
	w.lapse(lapsing.Key)
	for _, expected := range []int64{0, lapsing.FencingToken, lapsing.FencingToken + 1} {
		_, err = w.store.Revoke(w.Context(), lapsing.Key, "olga", "stuck for an hour", expected)
		w.wantIs(err, lock.ErrNotHeld)
	}
}
