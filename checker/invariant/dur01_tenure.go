package invariant

import (
	"cmp"
	"math"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// tenure is one server's time as lockdb: what its log shows of its rows, and which of that was answered.
type tenure struct {
	begun   int64 // T of its first event, −1 for the first server's
	rows    map[lockRow]lockState
	moves   []move // the latest changes, oldest first
	dropped bool   // there were earlier ones, or earlier deeds

	deeds    []*deed                     // the effects of the commits that moves has, in their order
	unheard  map[effect][]*deed          // those that were not answered yet
	early    map[effect][]*history.Event // answers that came before what they tell of
	promises map[lockRow]*deed           // of each row that is there, the latest answered deed that it shows; from an earlier tenure its i is 0
}

// lockRow names a row of the lock store.
type lockRow struct{ table, id string }

// lockState is a row as far as it is compared; one that is not there is zero.
type lockState struct {
	token            int64
	session, expires string
}

// move is what a commit has made of a row.
type move struct {
	i       int64 // of the commit
	row     lockRow
	was, is lockState
}

// deed is an effect of a commit, and its answer where there was one.
type deed struct {
	effect effect
	i      int64 // of the commit
	answer *history.Event
}

// maxMoves bounds the changes of rows that are remembered, and the deeds: several times what a standby is behind in any plan.
const maxMoves = 8192

func newTenure(begun int64) *tenure {
	return &tenure{begun: begun, rows: map[lockRow]lockState{}, unheard: map[effect][]*deed{}, early: map[effect][]*history.Event{}, promises: map[lockRow]*deed{}}
}

// commit follows the rows. What is in the snapshot that a tenure begins with is no change.
func (n *tenure) commit(e *history.Event) {
	for i := range e.Changes {
		for _, s := range n.changed(&e.Changes[i]) {
			if s.i = e.I; s.was == s.is {
				continue
			}
			if s.is == (lockState{}) {
				delete(n.rows, s.row)
				delete(n.promises, s.row)
			} else {
				n.rows[s.row] = s.is
			}
			if e.Msg != snapshot {
				n.moves = append(n.moves, s)
			}
		}
	}
	n.bound()
}

// changed is what a change does to the rows that are followed: grants and sessions. A revoke takes its grant away in the commit
// that puts it on record.
func (n *tenure) changed(c *history.Change) []move {
	switch c.Table {
	case "lock_entry":
		return n.moveOf(c, "lock_key", func(r map[string]string) lockState {
			return lockState{history.Int(r["fencing_token"]), r["session_id"], r["expires_at"]}
		})
	case "lock_session":
		return n.moveOf(c, "session_id", func(r map[string]string) lockState { return lockState{expires: r["expires_at"]} })
	}
	return nil
}

func (n *tenure) moveOf(c *history.Change, id string, read func(map[string]string) lockState) (moves []move) {
	old := lockRow{c.Table, c.Old[id]}
	if c.Old != nil && (c.New == nil || c.New[id] != old.id) {
		moves = append(moves, move{row: old, was: n.rows[old]})
	}
	if c.New != nil {
		row := lockRow{c.Table, c.New[id]}
		moves = append(moves, move{row: row, was: n.rows[row], is: read(c.New)})
	}
	return moves
}

// bound drops the commits with the older half of the changes when there are too many of these, or of the deeds: some change no row.
func (n *tenure) bound() {
	var from int64
	switch {
	case len(n.moves) > maxMoves:
		from = n.moves[len(n.moves)/2-1].i + 1
	case len(n.deeds) > maxMoves:
		from = n.deeds[len(n.deeds)/2-1].i + 1
	default:
		return
	}
	n.moves, n.dropped = slices.DeleteFunc(n.moves, func(s move) bool { return s.i < from }), true
	n.deeds = slices.DeleteFunc(n.deeds, func(d *deed) bool { return d.i < from })
	for x, waiting := range n.unheard {
		if waiting = slices.DeleteFunc(waiting, func(d *deed) bool { return d.i < from }); len(waiting) == 0 {
			delete(n.unheard, x)
		} else {
			n.unheard[x] = waiting
		}
	}
}

// happened takes an effect out of the log.
func (n *tenure) happened(x effect, i int64) {
	d := &deed{effect: x, i: i}
	n.deeds = append(n.deeds, d)
	if waiting := n.early[x]; len(waiting) > 0 {
		if n.early[x] = waiting[1:]; len(waiting) == 1 {
			delete(n.early, x)
		}
		n.promise(d, waiting[0])
		return
	}
	n.unheard[x] = append(n.unheard[x], d)
}

// passed drops the answers that the log has passed by: what they wait for has been dropped, or was not there when they were given.
func (n *tenure) passed(covers int64) {
	for x, waiting := range n.early {
		if waiting = slices.DeleteFunc(waiting, func(answer *history.Event) bool { return covered(covers, answer.T) }); len(waiting) == 0 {
			delete(n.early, x)
		} else {
			n.early[x] = waiting
		}
	}
}

// answered joins an answer with its effect, whichever comes first.
func (n *tenure) answered(x effect, answer *history.Event) {
	waiting := n.unheard[x]
	if len(waiting) == 0 {
		n.early[x] = append(n.early[x], answer)
		return
	}
	if n.unheard[x] = waiting[1:]; len(waiting) == 1 {
		delete(n.unheard, x)
	}
	n.promise(waiting[0], answer)
}

// promise notes that somebody was told of a deed.
func (n *tenure) promise(d *deed, answer *history.Event) {
	d.answer = answer
	row := d.effect.row()
	if last := n.promises[row]; n.rows[row] != (lockState{}) && !d.effect.ends() && (last == nil || last.i <= d.i) {
		n.promises[row] = d
	}
}

// row is the row that an effect of the lock store is about.
func (x effect) row() lockRow {
	switch x.kind {
	case effectSession, effectBeat, effectClose:
		return lockRow{"lock_session", x.of}
	}
	return lockRow{"lock_entry", x.of}
}

// ends tells whether an effect takes its row away.
func (x effect) ends() bool {
	return x.kind == effectClose || x.kind == effectRelease || x.kind == effectRevoke
}

// comparison is a promoted server beside the one before it.
type comparison struct {
	rows    int64   // keys of which they had another row
	found   bool    // the promoted one began as the old one had been once
	reached int64   // I up to which it has the old one's commits, where that is known
	behind  bool    // there were later ones
	told    int64   // answered deeds
	missed  []*deed // those that the promoted one lacks
}

// compare tells which commits of n a server lacks that began with these rows. A standby has its primary's commits in their
// order, so it began as its primary was after one of them; where several could be meant, the latest is.
func (n *tenure) compare(began map[lockRow]lockState) (c comparison) {
	differ := map[lockRow]bool{}
	look := func(row lockRow, is lockState) {
		if is == began[row] {
			delete(differ, row)
		} else {
			differ[row] = true
		}
	}
	for row, is := range n.rows {
		look(row, is)
	}
	for row := range began {
		look(row, n.rows[row])
	}
	for row := range differ {
		if row.table == "lock_entry" {
			c.rows++
		}
	}
	at := len(n.moves)
	for at > 0 && len(differ) > 0 {
		for i := n.moves[at-1].i; at > 0 && n.moves[at-1].i == i; at-- {
			look(n.moves[at-1].row, n.moves[at-1].was)
		}
	}
	c.found, c.behind, c.reached = len(differ) == 0, at < len(n.moves) || len(differ) > 0, math.MaxInt64
	if at < len(n.moves) {
		c.reached = n.moves[at].i - 1
	}
	for _, d := range n.deeds {
		if d.answer == nil {
			continue
		}
		if c.told++; d.i > c.reached {
			c.missed = append(c.missed, d)
		}
	}
	return c
}

// broken are the answered deeds of rows that began as they never were since then: what is known of a server that did not
// begin as the one before it had ever been.
func (n *tenure) broken(began map[lockRow]lockState) (missed []*deed) {
	first := map[lockRow]lockState{} // the rows before the first move
	for _, s := range slices.Backward(n.moves) {
		first[s.row] = s.was
	}
	for row, d := range n.promises {
		is, moved := began[row], []lockState{}
		if was, changed := first[row]; changed {
			moved = append(moved, was)
		} else {
			moved = append(moved, n.rows[row])
		}
		for _, s := range n.moves {
			if s.row == row && s.i > d.i {
				moved = append(moved, s.is)
			}
			if s.row == row && s.i == d.i {
				moved = []lockState{s.is}
			}
		}
		if is.token <= n.rows[row].token && !slices.Contains(moved, is) {
			missed = append(missed, d)
		}
	}
	slices.SortFunc(missed, func(a, b *deed) int { return cmp.Compare(a.answer.I, b.answer.I) })
	return missed
}

// carry takes over what was promised of rows that are there still.
func (n *tenure) carry(before *tenure, kept func(*deed) bool) {
	for row, d := range before.promises {
		now := n.rows[row]
		if now == (lockState{}) || now.token != before.rows[row].token || n.promises[row] != nil || !kept(d) {
			continue
		}
		n.promises[row] = &deed{effect: d.effect, answer: d.answer}
	}
}

// takeaway is a call that takes a row away when it is carried out, and whose end is not known.
type takeaway struct {
	op           contract.Op
	key, session string
	token, sent  int64
}

// mayEnd tells whether the call can have taken away the row of a deed.
func (x *takeaway) mayEnd(d *deed, is lockState) bool {
	row := d.effect.row()
	switch x.op {
	case contract.OpRelease:
		return row == lockRow{"lock_entry", x.key} && x.token == is.token
	case contract.OpRevoke:
		return row == lockRow{"lock_entry", x.key}
	case contract.OpCloseSession:
		return row == lockRow{"lock_session", x.session} || row.table == "lock_entry" && is.session == x.session
	}
	return false
}
