package linear

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// dice makes operations at random, from an execution of the specification.
type dice struct {
	*rand.Rand
	state State
	next  int64 // token
	now   int64
}

func (d *dice) session() string { return string(rune('a' + d.IntN(3))) }

// some is an operation that somebody might do now, with an answer that may be wrong.
func (d *dice) some() (Input, Output) {
	token := max(1, d.state.Token-d.Int64N(2))
	switch d.IntN(10) {
	case 0, 1, 2:
		return Input{Verb: Acquire, Session: d.session(), After: Unordered}, Output{Token: d.next}
	case 3:
		return Input{Verb: Acquire, Session: d.session(), After: Unordered}, Output{Result: Contended}
	case 4:
		return Input{Verb: Renew, Token: token}, Output{Result: []Result{Done, Lost}[d.IntN(2)]}
	case 5, 6:
		return Input{Verb: Release, Token: token}, Output{Result: []Result{Done, Lost}[d.IntN(2)]}
	case 7:
		d.next += 2
		return Input{Verb: Revoke}, []Output{{Token: token, Floor: d.next}, {Result: NotHeld}, {Result: Other, Token: token}}[d.IntN(3)]
	}
	return Input{Verb: []Verb{Sweep, Drop, Expire, Reap}[d.IntN(4)], Token: token}, Output{}
}

// history is n operations that the specification allows, each in an interval that is up to wide to either side.
func (d *dice) history(n int, wide int64) (ops []Op) {
	for len(ops) < n {
		in, out := d.some()
		ok, next := Step(d.state, in, out)
		if !ok {
			continue
		}
		if in.Verb == Acquire && out.Result == Done {
			d.next++
		}
		d.state, d.now = next, d.now+10
		ops = append(ops, Op{In: in, Out: out, Lo: d.now - d.Int64N(wide), Hi: d.now + d.Int64N(wide), Who: "p", Refs: []int64{1, 2, 3}})
	}
	return ops
}

// disturb makes of the operations of a history what may be none any more.
func (d *dice) disturb(ops []Op) {
	o := &ops[d.IntN(len(ops))]
	switch d.IntN(4) {
	case 0:
		shift := d.Int64N(100) - 50
		o.Lo, o.Hi = o.Lo+shift, o.Hi+shift
	case 1:
		o.In.Token = max(1, o.In.Token+d.Int64N(3)-1)
	case 2:
		o.Out.Token += d.Int64N(3) - 1
	case 3:
		if o.In.Verb == Renew || o.In.Verb == Release {
			o.Out.Result = Done + Lost - o.Out.Result
		}
	}
}

// judged is what the checker makes of operations, beside what porcupine says of them without any of our help.
func judged(ops []Op) (ours, plain bool) {
	plain = porcupine.CheckOperations(model(State{}), operations(ops))
	var f finding
	f.epoch(&task{Key: "k", Budget: DefaultBudget}, slices.Clone(ops), time.Now().Add(time.Minute))
	return f.Sentence == "" && f.Open == "", plain
}

func TestNarrowingSettlingAndCuttingChangeNoVerdict(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(15000) {
		d := &dice{Rand: rand.New(rand.NewPCG(seed, 4)), next: 1}
		ops := d.history(4+d.IntN(9), 2+d.Int64N(60))
		for range d.IntN(6) {
			d.disturb(ops)
		}
		ours, plain := judged(ops)
		if ours != plain {
			for _, o := range ops {
				t.Logf("[%d, %d] %s %s", o.Lo, o.Hi, o.In.Session, describe(o.In, o.Out))
			}
			t.Fatalf("seed %d: linearizable is %t, the checker says %t", seed, plain, ours)
		}
		if plain {
			good++
		} else {
			bad++
		}
	}
	if good < 1000 || bad < 1000 {
		t.Fatalf("%d linearizable histories and %d others test little", good, bad)
	}
}

func TestALongHistoryIsManySmallSearches(t *testing.T) {
	d := &dice{Rand: rand.New(rand.NewPCG(1, 2)), next: 1}
	ops := d.history(20_000, 25)
	f := finding{}
	f.epoch(&task{Key: "k", Budget: DefaultBudget}, ops, time.Now().Add(time.Minute))
	if f.Sentence != "" || f.Open != "" {
		t.Fatalf("%+v", f)
	}
	if f.Segments < 2000 {
		t.Fatalf("%d searches for %d operations", f.Segments, f.Searched)
	}
}

// explosive is a history that takes for ever: forty refusals that may each be right at any time, and one renewal that is
// never right.
func explosive(w *world) {
	w.granted(10, 900, "ann", 1, 500)
	w.puts(500, "ann", 1)
	w.released(15, 905, "ann", 1)
	w.removes(510)
	for i := range 40 {
		w.contended(5, 910+int64(i), fmt.Sprintf("client-%d", i))
	}
	w.renewed(300, 950, "ann", 7)
}

func TestASearchEndsWithItsTime(t *testing.T) {
	w := newWorld()
	explosive(w)
	f := judge(t, w.history(), Budget{Time: 50 * time.Millisecond})[key]
	if f.Open == "" || f.Sentence != "" {
		t.Fatalf("%+v", f)
	}
}
