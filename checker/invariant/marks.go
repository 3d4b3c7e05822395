package invariant

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// commitMark is where a commit of paydb stands, in few bytes: one is kept for every payout. With the few columns that
// matter it is shown as evidence.
type commitMark struct {
	i, t int64
	xid  uint32
	lsn  string
}

func markOf(e *history.Event) commitMark {
	return commitMark{i: e.I, t: e.T, xid: e.XID, lsn: e.LSN}
}

// show is the commit with one of its changes, nil where there is none.
func (m commitMark) show(table string, columns map[string]string) *history.Event {
	if m.t == 0 && m.i == 0 {
		return nil
	}
	return &history.Event{I: m.i, W: history.PayDB, T: m.t, Type: contract.OK, Proc: contract.PayDB, Op: history.OpCommit, LSN: m.lsn, XID: m.xid,
		Changes: []history.Change{{Table: table, Kind: history.Update, New: columns}}}
}
