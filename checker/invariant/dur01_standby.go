package invariant

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// promotions compares each server that was promoted in lockdb's place with the one before it: what it began with, which its
// snapshot shows, with what the old one's log had come to. Where every commit was to wait for the standby, it must have all
// that had been answered; where nobody waited, what it lacks is counted.
type promotions struct {
	now    *tenure
	before *tenure               // until it has been compared
	cause  *history.Event        // the fault that ended before, a failover
	began  map[lockRow]lockState // what now began with, nil until it is known
	shown  *history.Event        // what shows that it is
	open   map[int64]*takeaway   // calls on their way
	vague  []*takeaway           // calls of which nobody knows how they ended
	doubts map[string]struct{}   // why nobody can know
}

// maxVague bounds the calls of which nobody knows how they ended: the latest are those that a commit may still follow from.
const maxVague = 256

// newPromotions follows the rows of lockdb, nil where no standby of it can be promoted.
func newPromotions(s verdict.Settings) *promotions {
	if !strings.Contains(s.Nemesis, opFailover) && s.Nemesis != scripted {
		return nil
	}
	return &promotions{now: newTenure(-1), open: map[int64]*takeaway{}, doubts: map[string]struct{}{}}
}

// scripted is the nemesis of a plan that a person wrote: any fault may be in it.
const scripted = "script"

// standby takes everything about lockdb's standbys out of an event. Of a commit it takes the rows; see happened for the effects.
func (f *durable) standby(e *history.Event) {
	p := f.promotions
	switch {
	case p == nil:
	case e.W == history.Wiretap:
		p.hear(e)
		if p.began != nil && e.T > p.now.begun { // all that was answered before has been heard
			f.promoted(true)
		}
	case e.W == history.LockDB && e.Op == history.OpCommit && e.Msg == snapshot:
		p.now.commit(e)
		p.shown = f.book.keep(e)
	case e.W == history.LockDB && (e.Op == history.OpCommit || e.Op == history.OpWatermark):
		if p.before != nil && p.began == nil {
			p.began = maps.Clone(p.now.rows)
			if p.shown == nil { // it began with nothing
				p.shown = f.book.keep(e)
			}
		}
		if e.Op == history.OpCommit {
			p.now.commit(e)
		} else {
			p.now.passed(e.Covers)
		}
	}
}

// succeed begins a server's tenure.
func (f *durable) succeed(e *history.Event) {
	p := f.promotions
	if p == nil {
		return
	}
	f.promoted(true) // the one before was not heard of any more
	if p.before, p.cause = nil, f.book.begunBy; promotes(p.cause) {
		p.before = p.now
	}
	p.now, p.began, p.shown = newTenure(e.T), nil, nil
}

// answered joins an answer of the lock with the tenure in which it was given. What was sent in one and answered in the next had
// its effect in either.
func (p *promotions) answered(x effect, answer *history.Event, sent sending) {
	switch {
	case p == nil:
	case answer.T > p.now.begun && sent.t > p.now.begun:
		p.now.answered(x, answer)
	case answer.T <= p.now.begun && p.before != nil:
		p.before.answered(x, answer)
	}
}

// hear follows the calls that take rows away. How one ended that the promoted server answers says nothing of the server before.
func (p *promotions) hear(e *history.Event) {
	switch {
	case e.Op != contract.OpRelease && e.Op != contract.OpRevoke && e.Op != contract.OpCloseSession:
	case e.Stage == history.Forwarded:
		p.open[e.Call] = &takeaway{op: e.Op, key: e.Key, session: e.Session, token: e.Token, sent: e.T}
	case e.Stage == history.Answered:
		x := p.open[e.Call]
		delete(p.open, e.Call)
		spans := x != nil && p.before != nil && x.sent <= p.now.begun && e.T > p.now.begun
		if x == nil || e.Type != contract.Info && !spans {
			return
		}
		if len(p.vague) == maxVague {
			p.vague = slices.Delete(p.vague, 0, 1)
		}
		p.vague = append(p.vague, x)
	}
}

// mayHaveEnded tells whether the row of a deed, which the log has and the promoted server has not, may have been taken away by
// a call that nobody knows the end of.
func (p *promotions) mayHaveEnded(d *deed) bool {
	row := d.effect.row()
	was := p.before.rows[row]
	if was == (lockState{}) || p.began[row] != (lockState{}) {
		return false
	}
	for _, x := range p.open {
		if x.sent <= p.now.begun && x.mayEnd(d, was) {
			return true
		}
	}
	return slices.ContainsFunc(p.vague, func(x *takeaway) bool { return x.sent <= p.now.begun && x.mayEnd(d, was) })
}

// promoted judges the server that was promoted last, once everything that was answered by the one before has been heard.
func (f *durable) promoted(whole bool) {
	p := f.promotions
	if p == nil || p.before == nil {
		return
	}
	before, waited := p.before, p.cause.Op == opFailover
	defer func() {
		p.before, p.began = nil, nil
		p.vague = slices.DeleteFunc(p.vague, func(x *takeaway) bool { return x.sent <= p.now.begun })
	}()
	if p.began == nil || !whole || f.book.lost[history.LockDB] || f.book.lost[history.Wiretap] {
		f.unresolved++ // what it began with, or what there was before, is not known whole
		f.book.failovers.unknown++
		return
	}
	c := before.compare(p.began)
	count := &f.book.failovers
	if count.rows += c.rows; c.behind {
		count.behind++
	}
	switch {
	case c.found:
		f.checked += c.told
	case before.dropped && !waited: // as much as is remembered
		count.cut++
	case before.dropped:
		c.missed = nil
		count.unknown++
		f.doubt("a standby that every commit was to wait for lacks more of what its primary had than is remembered")
	default:
		if c.missed = before.broken(p.began); len(c.missed) == 0 {
			count.unknown++
			f.doubt("a promoted standby began with rows that its primary's log never had together, so what it lacks is not known")
		}
	}
	missed := map[*deed]bool{}
	for _, d := range c.missed {
		if missed[d] = true; p.mayHaveEnded(d) {
			f.unresolved++
			count.excused++
			continue
		}
		if count.undone++; d.effect.kind == effectGrant {
			count.tokens++
		}
		if waited {
			f.report(forgotten(d.answer), f.about(d.answer), d.answer, p.cause, p.shown)
		}
	}
	p.now.carry(before, func(d *deed) bool { return !missed[d] && (!c.found || d.i <= c.reached) })
}

// forgotten says which answer a promoted standby knows nothing of, although it was to have all of them.
func forgotten(answer *history.Event) string {
	const lacks = "and the standby that was promoted in lockdb's place knows nothing of it, although every commit was to wait for it"
	if answer.Op == contract.OpAcquire {
		return fmt.Sprintf("%s was answered token %d for key %s, %s", answer.Proc, answer.Granted, answer.Key, lacks)
	}
	return fmt.Sprintf("%s was answered %d to its %s%s, %s", answer.Proc, answer.Status, answer.Op, subject(answer), lacks)
}

// doubt notes why nobody can know whether what was answered is kept.
func (f *durable) doubt(why string) { f.promotions.doubts[why] = struct{}{} }

// doubted says why nobody can know, "" where nothing is in doubt.
func (p *promotions) doubted() string {
	if p == nil {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(p.doubts)), "; ")
}
