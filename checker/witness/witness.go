// Package witness watches what really happened, past every link and whatever the services say: the committed row
// changes of a PostgreSQL database in commit order, the lock's changes on etcd in the order of its revisions, the rail's
// journal of money moved, and the services' own logs.
//
// A witness records facts and never judges them. One that lost its place says so with an OpLostPlace event and stops:
// what it covered is then inconclusive, never a pass.
package witness

import (
	"cmp"
	"errors"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// Sink takes what a witness saw. history.Recorder is one.
type Sink interface {
	// Record appends e to w's history and returns its place in the one sequence over all witnesses. It does not wait
	// for the disk, and it may be called from several goroutines.
	Record(w history.Witness, e history.Event) int64
	// Now is the run's monotonic clock, in nanoseconds since the run began: the clock of every event's T.
	Now() int64
	// Complete marks w's history as whole. It is called last, and only by a witness that kept its place.
	Complete(w history.Witness)
}

// ErrLost is wrapped by every error of a witness that lost its place: what happened since its last watermark cannot be
// known from it any more.
var ErrLost = errors.New("the witness lost its place")

// The least time between two recorded watermarks of one witness: short when something new was recorded, long when
// nothing happened, so that a history is not flooded.
const (
	watermarkBusy = 200 * time.Millisecond
	watermarkIdle = time.Second
)

// watermarks decides which of the many watermarks that a witness could record are worth a line.
type watermarks struct {
	news bool          // something was recorded since the last one
	last int64         // when the last one was recorded; 0: none yet
	idle time.Duration // the least time between two while nothing happens; 0: watermarkIdle
}

// due tells whether to record one now; asked means that somebody waits for it.
func (w *watermarks) due(now int64, asked bool) bool {
	since := time.Duration(now - w.last)
	if !asked && w.last != 0 && since < cmp.Or(w.idle, watermarkIdle) && (!w.news || since < watermarkBusy) {
		return false
	}
	w.last, w.news = now, false
	return true
}

// recordWatermark says that everything that happened at proc before the time covers has been recorded.
func recordWatermark(s Sink, w history.Witness, proc contract.Process, epoch int, covers int64) {
	s.Record(w, history.Event{Type: contract.Info, Proc: proc, Op: history.OpWatermark, Epoch: epoch, Covers: covers})
}

// recordLost says in one sentence why a witness lost its place.
func recordLost(s Sink, w history.Witness, proc contract.Process, epoch int, why string) {
	s.Record(w, history.Event{Type: contract.Info, Proc: proc, Op: history.OpLostPlace, Epoch: epoch, Msg: why})
}
