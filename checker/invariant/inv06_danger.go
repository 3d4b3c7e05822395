package invariant

import (
	"maps"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// leaseDanger counts what INV-06 guards against as clients meet it: keys that somebody else has, grants that are over
// when their client comes back to them, and sessions that died with keys in their hands. It judges nothing.
type leaseDanger struct {
	contended, staleReleases, staleRenewals, woken, deaths int64

	held    map[contract.Process]map[string]int64 // the tokens that clients were granted last, by key
	stopped map[contract.Process]map[string]int64 // those that they had when they were stopped last
	closing map[string]bool                       // sessions that their clients have asked to close
	asked   []string                              // of closing, oldest first
}

// maxClosing bounds the sessions of which it is remembered that they are to be closed. One ends as soon as its closing is
// carried out; one that was forgotten before would be counted as dead.
const maxClosing = 4096

func newLeaseDanger() leaseDanger {
	return leaseDanger{held: map[contract.Process]map[string]int64{}, stopped: map[contract.Process]map[string]int64{}, closing: map[string]bool{}}
}

// hear takes what the wiretap and the nemesis say.
func (d *leaseDanger) hear(e *history.Event) {
	switch {
	case e.W == history.Nemesis && e.Op == "pause" && e.Phase == "seen":
		d.stopped[contract.Process(e.Target)] = maps.Clone(d.held[contract.Process(e.Target)])
	case e.W != history.Wiretap:
	case e.Stage == history.Forwarded && e.Op == contract.OpCloseSession:
		d.close(e.Session)
	case e.Stage == history.Answered:
		d.answered(e)
	}
}

func (d *leaseDanger) close(session string) {
	if d.closing[session] {
		return
	}
	d.closing[session] = true
	if d.asked = append(d.asked, session); len(d.asked) > maxClosing {
		delete(d.closing, d.asked[0])
		d.asked = slices.Delete(d.asked, 0, 1)
	}
}

func (d *leaseDanger) answered(e *history.Event) {
	switch e.Op {
	case contract.OpCloseSession:
		if e.Type == contract.Fail {
			delete(d.closing, e.Session)
			d.asked = slices.DeleteFunc(d.asked, func(s string) bool { return s == e.Session })
		}
	case contract.OpAcquire:
		if e.Code == contract.LockContended {
			d.contended++
		} else if e.Granted > 0 && e.DupOf == 0 { // what a copy was granted is in nobody's hands
			d.granted(e)
		}
	case contract.OpRenew, contract.OpRelease:
		if e.Code == contract.LockLost {
			d.refused(e)
		}
		if e.Op == contract.OpRelease && d.held[e.Proc][e.Key] == e.Token {
			delete(d.held[e.Proc], e.Key)
		}
	}
}

func (d *leaseDanger) granted(e *history.Event) {
	if d.held[e.Proc] == nil {
		d.held[e.Proc] = map[string]int64{}
	}
	d.held[e.Proc][e.Key] = e.Granted
}

// refused counts the answer to somebody whose grant is over, and whether it had been stopped with that grant in its hands.
func (d *leaseDanger) refused(e *history.Event) {
	if e.Op == contract.OpRelease {
		d.staleReleases++
	} else {
		d.staleRenewals++
	}
	if token, there := d.stopped[e.Proc][e.Key]; there && token == e.Token {
		d.woken++
		delete(d.stopped[e.Proc], e.Key)
	}
}

// ended takes a grant that ended in one commit with its session. Nobody had asked for that where the session died.
func (d *leaseDanger) ended(session string) {
	if !d.closing[session] {
		d.deaths++
	}
}

// counts adds the counts to others.
func (d *leaseDanger) counts(others map[string]int64) map[string]int64 {
	others["contended"], others["stale_releases"], others["stale_renewals"] = d.contended, d.staleReleases, d.staleRenewals
	others["woken_refused"], others["died_with_session"] = d.woken, d.deaths
	return others
}
