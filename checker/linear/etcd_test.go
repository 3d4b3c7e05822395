package linear

import (
	"testing"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

func TestTheLeaseOfAStoreWithoutAClockLastsForItsTTL(t *testing.T) {
	begin := func() *world {
		w := newWorld()
		w.etcd = true
		w.acquires(10, 20, "ann", 3)
		w.renews(600, 610, "ann", 3)
		return w
	}
	t.Run("and then it may end", func(t *testing.T) {
		w := begin()
		w.removes(1650)
		w.acquires(1660, 1670, "bob", 9)
		if f := fine(t, w); f.Counts.Expiries != 1 {
			t.Fatalf("%+v", f.Counts)
		}
	})
	t.Run("which begins when the grant is asked for, long before it is written down", func(t *testing.T) {
		w := newWorld()
		w.etcd = true
		w.granted(10, 700, "ann", 3, 600)
		w.puts(600, "ann", 3)
		w.removes(1100)
		w.acquires(1160, 1170, "bob", 9)
		if f := fine(t, w); f.Counts.Expiries != 1 {
			t.Fatalf("%+v", f.Counts)
		}
	})
	t.Run("or long before anybody saw a grant that nobody heard of, whose end is recorded late", func(t *testing.T) {
		w := newWorld()
		w.etcd, w.quiet = true, []span{{350, 500}, {990, 2400}}
		w.call(1, 0, "ann", history.Event{Op: contract.OpAcquire})
		w.puts(400, "ann", 3)
		w.granted(1010, 1015, "bob", 9, 1012)
		w.removes(2360) // it ended at 1005
		w.puts(2361, "bob", 9)
		fine(t, w)
	})
	t.Run("and what nobody heard of, its server may take back before it ends", func(t *testing.T) {
		w := newWorld()
		w.etcd, w.quiet = true, []span{{100, 1500}}
		w.call(1, 0, "ann", history.Event{Op: contract.OpAcquire})
		w.puts(40, "ann", 3)
		w.granted(160, 170, "bob", 9, 165)
		w.removes(1400)
		w.puts(1401, "bob", 9)
		fine(t, w)
	})
	t.Run("and not before", func(t *testing.T) {
		w := begin()
		w.removes(1400)
		w.acquires(1660, 1670, "bob", 9)
		if f := find(t, w); f.Sentence != "bob was granted key accounts/7 with token 9, although ann held it with token 3" {
			t.Fatalf("%+v", f)
		}
	})
}
