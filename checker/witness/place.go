package witness

import (
	"fmt"

	"github.com/jackc/pglogrepl"
)

// landmark is something in the log that is recognised when it is sent again: a recorded commit, or a marker of ours.
type landmark struct {
	end    pglogrepl.LSN // where its record ends
	marker bool
	id     uint64 // a commit's transaction id, a marker's stamp
}

// place is where a witness stands in a database's log. Its point is the proof, after every reconnection, that the log
// still is the one that was read: the server is only ever told of what lies before the last landmark, so that it must
// send that landmark again. A log that was rewound and written anew holds something else there, even when it has grown
// past the old position in the meantime.
type place struct {
	acked pglogrepl.LSN // everything that ends here or before need not be sent again
	kept  []landmark    // what was seen after acked, in the log's order
	again int           // how many of kept the present connection has sent again
}

// startAt is the place of a witness that has seen nothing yet after lsn.
func startAt(lsn pglogrepl.LSN) *place { return &place{acked: lsn} }

// reached is the end of the last thing seen.
func (p *place) reached() pglogrepl.LSN {
	if n := len(p.kept); n > 0 {
		return p.kept[n-1].end
	}
	return p.acked
}

// reconnect makes the next landmarks be compared with those seen before.
func (p *place) reconnect() { p.again = 0 }

// proven tells whether the present connection has shown everything again that was seen before.
func (p *place) proven() bool { return p.again == len(p.kept) }

// see takes the next landmark of the log. seen means that it was recorded before; an error, that the log is not the
// one that was read before.
func (p *place) see(l landmark) (seen bool, err error) {
	if !p.proven() {
		if want := p.kept[p.again]; want != l {
			return false, fmt.Errorf("the log held %s, and now holds %s there: it was put back to an older state and written anew",
				want, l)
		}
		p.again++
		return true, nil
	}
	if at := p.reached(); l.end <= at {
		return false, fmt.Errorf("the log had been read to %s, and then came %s: its position went back", at, l)
	}
	p.kept = append(p.kept, l)
	p.again++
	return false, nil
}

// acknowledge forgets all landmarks but the last, and returns the position that the server need not send again.
func (p *place) acknowledge() pglogrepl.LSN {
	if n := len(p.kept); n > 1 && p.proven() {
		p.acked = p.kept[n-2].end
		p.kept = append(p.kept[:0], p.kept[n-1])
		p.again = 1
	}
	return p.acked
}

func (l landmark) String() string {
	if l.marker {
		return fmt.Sprintf("marker %d at %s", l.id, l.end)
	}
	return fmt.Sprintf("transaction %d at %s", l.id, l.end)
}
