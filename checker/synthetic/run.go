package synthetic

import (
	"math/rand/v2"
	"time"

	"fenceproof/checker/contract"
)

func newWorld(o Options, f *files) *world {
	w := &world{o: o, files: f, rng: rand.New(rand.NewPCG(o.Seed, 0x5e17)), tasks: map[*task]struct{}{}, driving: true, plotted: o.Violation == ""}
	w.ttl = o.ttl()
	w.locks, w.payments, w.pauses = w.newLockStore(), newPayments(w), &pauses{w: w, on: contract.OpSubmitted}
	w.count.Payouts = map[string]int64{}
	return w
}

// run lets everything happen, from the boot to the last trailer.
func (w *world) run() {
	if w.o.Workload == lockWorkload {
		w.spawn(nil, w.lockHarness)
	} else {
		w.spawn(nil, w.harness)
	}
	for w.step() {
	}
	for t := range w.tasks {
		t.end()
	}
	w.files.advance(never)
}

// harness is the run's own course.
func (w *world) harness(t *task) {
	w.phase("boot")
	w.spawn(nil, w.watermarks)
	w.spawn(nil, w.alive)
	w.spawn(nil, w.locks.reap)
	t.sleep(w.between(time.Second, 2*time.Second))
	var main []*client
	for n := range w.o.Executors {
		x := w.newClient(contract.Executor(n + 1))
		main = append(main, x)
		w.spawn(x.proc, x.execute)
	}
	reconciler := w.newClient(contract.Reconciler)
	w.spawn(reconciler.proc, reconciler.reconcile)
	w.phase("seed")
	t.sleep(50 * time.Millisecond)
	for range w.o.Accounts {
		w.accounts = append(w.accounts, w.openAccount(opening))
		t.sleep(w.between(500*time.Microsecond, 2*time.Millisecond))
	}
	w.phase("drive")
	w.drive(t)
	w.driving = false
	for w.pauses.active > 0 {
		t.sleep(10 * time.Millisecond)
	}
	w.phase("drain")
	for until := w.now + int64(drainLimit); len(w.open) > 0 && w.now < until; {
		t.sleep(100 * time.Millisecond)
	}
	w.phase("collect")
	for _, x := range append(main, reconciler) {
		x.leaving = true
	}
	t.sleep(3 * time.Second)
	w.lastWatermarks()
	w.over = true
}

// opening is each account's balance at the beginning: enough for any history.
const opening = 1 << 40

// perPayout is about how many events an open payout is still good for.
const perPayout = 60

// drive offers payouts until the history is long enough, and lets happen what is planted when its time has come.
func (w *world) drive(t *task) {
	begun := w.plotted
	for w.files.last+int64(len(w.open)*perPayout) < int64(w.o.Events) || !w.plotted {
		t.sleep(time.Duration(w.rng.ExpFloat64() / w.o.rate() * float64(time.Second)))
		if !begun && float64(w.files.last) >= w.o.At*float64(w.o.Events) {
			begun = true
			w.spawn(nil, func(t *task) {
				newPlot(t).run()
				w.plotted = true
			})
		}
		if w.o.Only || len(w.open) > 3*w.o.Accounts {
			continue // more than the executors get done would only pile up
		}
		a := w.accounts[w.rng.IntN(len(w.accounts))]
		amount := 100 + w.rng.Int64N(9900)
		if w.chance(3) {
			amount = 2 * opening // no account has that much
		}
		w.order(a, amount)
	}
}

// lastWatermarks says that each witness has seen everything to the end.
func (w *world) lastWatermarks() {
	for _, s := range w.sources() {
		w.watermark(s.of, s.proc)
	}
}

func (w *world) made() Made {
	w.count.Events, w.count.Bytes = w.files.last, w.files.bytes
	for s, n := range w.states {
		if n > 0 {
			w.count.Payouts[string(s)] = n
		}
	}
	return w.count
}
