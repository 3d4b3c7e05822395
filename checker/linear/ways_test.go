package linear

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// answer is something that might be answered now, with what answers alone leave open: grants without tokens, requests that name
// none, revokes that say nothing, and grants that nobody was told of.
func (d *dice) answer() (Input, Output) {
	in := Input{Session: d.session(), After: Unordered, Unheard: d.IntN(3) == 0, Exclusive: d.IntN(2) == 0}
	switch d.IntN(10) {
	case 0, 1, 2:
		in.Verb, in.Unheard = Acquire, false
		if d.next++; d.IntN(2) == 0 {
			return in, Output{Token: d.next}
		}
		return in, Output{Token: -d.next}
	case 3:
		in.Verb = Acquire
		return in, Output{Result: Contended}
	case 4:
		in.Verb = Renew
		return in, Output{Result: []Result{Done, Lost}[d.IntN(2)]}
	case 5, 6:
		in.Verb = Release
		if d.IntN(3) == 0 {
			in.Token = d.state.Token
		}
		if d.IntN(6) == 0 {
			in.Session = Anybody
		}
		return in, Output{Result: []Result{Done, Done, Lost}[d.IntN(3)]}
	case 7:
		in.Verb = Revoke
		if d.next += 2; d.IntN(2) == 0 {
			return in, Output{}
		}
		return in, Output{Token: d.next - 1, Floor: d.next}
	}
	in.Verb, in.Maybe, in.Unheard = []Verb{Drop, Drop, Expire, Revoke}[d.IntN(4)], true, false
	switch in.Token = d.state.Token; {
	case in.Verb == Revoke, in.Verb == Drop && d.IntN(2) == 0:
		in.Token = 0
	}
	if d.IntN(6) == 0 {
		in.Session = Anybody
	}
	return in, Output{}
}

// alone is n such answers that the specification allows.
func (d *dice) alone(n int, wide int64) (ops []Op) {
	for len(ops) < n {
		in, out := d.answer()
		ok, next := Step(d.state, in, out)
		if !ok {
			continue
		}
		d.state, d.now = next, d.now+10
		ops = append(ops, Op{In: in, Out: out, Lo: d.now - d.Int64N(wide), Hi: d.now + d.Int64N(wide), Who: "p", Refs: []int64{1, 2, 3}})
	}
	return ops
}

// some tells whether ops are linearizable with some of those of which nobody knows whether they took place.
func some(ops []Op, from int) bool {
	for i := from; i < len(ops); i++ {
		if ops[i].In.Maybe {
			return some(slices.Delete(slices.Clone(ops), i, i+1), i) || some(ops, i+1)
		}
	}
	return porcupine.CheckOperations(model(State{}), operations(ops))
}

// Where a piece of a history can leave the key in more than one state, what follows is judged from all of them.
func TestCuttingChangesNoVerdictOnAnswersAlone(t *testing.T) {
	good, bad, cut := 0, 0, int64(0)
	for seed := range uint64(15000) {
		d := &dice{Rand: rand.New(rand.NewPCG(seed, 8)), next: 1}
		ops := d.alone(4+d.IntN(9), 2+d.Int64N(60))
		for range d.IntN(4) {
			d.disturb(ops)
		}
		plain := some(ops, 0)
		var f finding
		f.epoch(&task{Key: "k", Budget: DefaultBudget}, slices.Clone(ops), time.Now().Add(time.Minute))
		if ours := f.Sentence == "" && f.Open == ""; ours != plain {
			for _, o := range ops {
				t.Logf("[%d, %d] %s %v %s", o.Lo, o.Hi, o.In.Session, o.In.Unheard, describe(o.In, o.Out))
			}
			t.Fatalf("seed %d: linearizable is %t, the checker says %t: %+v", seed, plain, ours, f)
		}
		if cut += f.Segments; plain {
			good++
		} else {
			bad++
		}
	}
	if good < 1000 || bad < 1000 || cut < 30000 {
		t.Fatalf("%d linearizable histories and %d others in %d pieces test little", good, bad, cut)
	}
}

// Where there are too many ways to go on, all that is left is searched at once.
func TestWhatCannotBeFollowedIsSearchedAtOnce(t *testing.T) {
	var many []Op
	for i := range int64(20) {
		a := Op{In: Input{Verb: Acquire, Session: string(rune('a' + i)), After: Unordered}, Out: Output{Token: -i - 1}, Lo: 1, Hi: 100}
		r := Op{In: Input{Verb: Release, Token: -i - 1, Session: string(rune('a' + i))}, Lo: 1, Hi: 100}
		many = append(many, a, r)
	}
	many = append(many, Op{In: Input{Verb: Release, Session: Anybody, Unheard: true}, Lo: 50, Hi: 100})
	slices.SortStableFunc(many, byLo)
	if result := newWays(nil, time.Now().Add(time.Minute)).follow(many); result != porcupine.Unknown {
		t.Errorf("a million orders are tried: %s", result)
	}
	many = append(many, Op{In: Input{Verb: Acquire, Session: "b", After: Unordered}, Out: Output{Token: -100}, Lo: 200, Hi: 210})
	var f finding
	f.epoch(&task{Key: "k", Budget: DefaultBudget}, many, time.Now().Add(time.Minute))
	if f.Sentence != "" || f.Open != "" || f.Segments != 1 || f.Searched != int64(len(many)) {
		t.Errorf("%+v", f)
	}
}
