package invariant

import (
	"math"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// instant is a moment by a database's own clock, in microseconds since 1970; 0 where the row does not say.
type instant int64

// moment reads a column of type timestamptz.
func moment(column string) instant { return instant(history.Micros(column)) }

// onWire reads a time of an HTTP body.
func onWire(s string) instant {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0
	}
	return instant(t.UnixMicro())
}

// String is the moment as sentences show it.
func (i instant) String() string { return time.UnixMicro(int64(i)).UTC().Format("15:04:05.000000") }

// snapshot is the Msg of a commit that holds the rows that were there before the witness came.
const snapshot = "snapshot"

// since is how long after another moment of the harness's clock an event came, for people.
func since(from, to int64) time.Duration { return time.Duration(to - from).Round(time.Millisecond) }

// theEnd is what a log covers that was read to its end.
const theEnd = math.MaxInt64

// covered tells whether a log that covers so much has all by now that had been committed when something was sent at t. What
// was committed at t itself may have been committed before that, and a watermark covers what came before it alone.
func covered(covers, t int64) bool { return t < covers || covers == theEnd }

// isAnswer tells whether e is the definite answer of status 2xx to op.
func isAnswer(e *history.Event, op contract.Op) bool {
	return e.Op == op && e.Stage == history.Answered && e.Type == contract.OK && e.Status >= 200 && e.Status < 300
}
