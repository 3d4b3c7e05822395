package witness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"pgregory.net/rapid"
)

func TestAPlaceRecognisesEveryOtherLog(t *testing.T) {
	commit := func(end, id uint64) landmark { return landmark{end: pglogrepl.LSN(end), id: id} }
	marker := func(end, id uint64) landmark { return landmark{end: pglogrepl.LSN(end), id: id, marker: true} }
	before := []landmark{commit(10, 1), marker(20, 100), commit(30, 2)}
	for _, c := range []struct {
		name  string
		after []landmark // what the log holds after the reconnection
		news  int        // how many of them are new
		err   string
	}{
		{"the same log that went on", []landmark{commit(10, 1), marker(20, 100), commit(30, 2), commit(40, 3)}, 1, ""},
		{"nothing new", before, 0, ""},
		{"another transaction at the same position", []landmark{commit(10, 1), marker(20, 100), commit(30, 3)}, 0, "put back to an older state"},
		{"another marker at the same position", []landmark{commit(10, 1), marker(20, 101)}, 0, "put back to an older state"},
		{"the same transaction elsewhere", []landmark{commit(11, 1)}, 0, "put back to an older state"},
		{"a transaction missing", []landmark{marker(20, 100)}, 0, "put back to an older state"},
		{"a transaction where a marker was", []landmark{commit(10, 1), commit(20, 100)}, 0, "put back to an older state"},
		{"a position that goes back", append(before[:3:3], commit(30, 9)), 0, "went back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startAt(5)
			for _, l := range before {
				if seen, err := p.see(l); seen || err != nil {
					t.Fatalf("%s the first time: seen %t, %v", l, seen, err)
				}
			}
			p.reconnect()
			news := 0
			var err error
			for _, l := range c.after {
				var seen bool
				if seen, err = p.see(l); err != nil {
					break
				}
				if !seen {
					news++
				}
			}
			if news != c.news {
				t.Errorf("%d were new, want %d", news, c.news)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// However often the connection breaks and whenever the server is told what it may forget, a log that is the same gives
// each landmark once, and the last one seen always comes again.
func TestAPlaceTakesEachLandmarkOnceOverManyConnections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "landmarks")
		log := make([]landmark, n)
		for i := range log {
			log[i] = landmark{end: pglogrepl.LSN(10 * (i + 1)), id: uint64(i), marker: rapid.Bool().Draw(t, "marker")}
		}
		p, taken := startAt(1), 0
		for taken < n {
			p.reconnect()
			if taken > 0 && p.acked >= log[taken-1].end {
				t.Fatalf("the server was told to forget %s, the last that was seen", log[taken-1])
			}
			cut := rapid.IntRange(1, 20).Draw(t, "until the connection breaks")
			for _, l := range log {
				if l.end <= p.acked {
					continue // the server does not send it again
				}
				if cut--; cut < 0 {
					break
				}
				seen, err := p.see(l)
				if err != nil {
					t.Fatal(err)
				}
				if !seen {
					if l != log[taken] {
						t.Fatalf("%s was taken where %s was due", l, log[taken])
					}
					taken++
				}
				if rapid.Bool().Draw(t, "acknowledge") {
					p.acknowledge()
				}
			}
		}
	})
}

func TestAServerThatIsNotTheOneWatchedIsRefusedBeforeAnythingIsRead(t *testing.T) {
	home := identity{system: "7000000000000000001", timeline: 1}
	for _, c := range []struct {
		name, because string
		who           identity
		at            pglogrepl.LSN
	}{
		{"another cluster", "another database cluster", identity{"7000000000000000002", 1}, 100},
		{"another timeline", "timeline 2 now and was on 1", identity{home.system, 2}, 100},
		{"a log that ends before the place", "the log ends at 0/31 and had been read to 0/32", home, 49},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Database{home: home, place: startAt(50)}
			var lost misplaced
			if err := d.samePlace(t.Context(), c.who, c.at); !errors.As(err, &lost) || !strings.Contains(err.Error(), c.because) {
				t.Errorf("got %v, want %q", err, c.because)
			}
		})
	}
}

func TestWatermarksAreRareAndPromptWhenAskedFor(t *testing.T) {
	const ms = int64(time.Millisecond)
	for _, c := range []struct {
		name  string
		since int64 // since the last one
		news  bool
		asked bool
		want  bool
	}{
		{"nothing new after a while", 900 * ms, false, false, false},
		{"nothing new for a second", 1000 * ms, false, false, true},
		{"something new at once", 100 * ms, true, false, false},
		{"something new after a while", 200 * ms, true, false, true},
		{"somebody waits", 1, false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watermarks{last: 5000 * ms, news: c.news}
			if got := w.due(5000*ms+c.since, c.asked); got != c.want {
				t.Errorf("due %t, want %t", got, c.want)
			}
			if c.want && (w.news || w.last != 5000*ms+c.since) {
				t.Errorf("a recorded watermark left %+v", w)
			}
		})
	}
}
