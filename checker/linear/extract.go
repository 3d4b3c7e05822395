package linear

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// extract reads a history once and sorts what concerns lock keys into a spool, each key's for itself. It keeps the
// calls that are open.
type extract struct {
	spool    *spool
	frame    frame
	open     map[int64]*opened
	covered  int64
	marked   int64 // when the lock store's latest watermark was recorded
	unsettle int64 // answers that do not say what they must
	timeless bool  // grants end by a clock that nobody sees: readings are of no use
	back     stepsBack
	cut      cut
	asked    map[int64]int64            // without a log: by call, the lease that its request asks for
	acquired map[string]map[string]bool // then, by key: the sessions that have asked for it
}

// opened is a call that waits for its answer.
type opened struct {
	call *call
	key  string
}

// fits tells whether e can be the answer to the call: a recorder that gives a number to two calls, or none, would have one's answer
// taken for the other's.
func (o *opened) fits(e *history.Event) error {
	switch c := o.call; {
	case e.Op != c.Op || e.Proc != c.Proc || e.Key != o.key:
		return fmt.Errorf("event %d of the wiretap answers call %d, %s of %s on key %q, with %s of %s on key %q: each call has a number of its own",
			e.I, e.Call, c.Op, c.Proc, o.key, e.Op, e.Proc, e.Key)
	case e.Type != contract.OK && e.Type != contract.Fail && e.Type != contract.Info:
		return fmt.Errorf("event %d of the wiretap answers call %d; its type is ok, fail or info, and not %q", e.I, e.Call, e.Type)
	}
	return nil
}

func newExtract(s *spool, alone bool) *extract {
	x := &extract{spool: s, frame: frame{Epochs: []int64{0}, Alone: alone}, open: map[int64]*opened{}, asked: map[int64]int64{}, acquired: map[string]map[string]bool{}}
	if alone {
		x.frame.Sessions = map[string]session{}
	}
	return x
}

// observe takes the next event, in order of I.
func (x *extract) observe(e *history.Event) error {
	if x.cut.leavesOut(e, x.covered) {
		return nil
	}
	x.frame.End = e.T
	if e.W == history.LockDB {
		if err := x.begin(e); err != nil {
			return err
		}
	}
	switch {
	case e.W == history.Wiretap && e.Stage == history.Received && x.frame.Alone:
		x.hear(e)
	case e.W == history.Wiretap && e.Stage == history.Forwarded && (followed(e.Op) || x.frame.Alone && OfSessions(e.Op)):
		if o := x.open[e.Call]; o != nil {
			return fmt.Errorf("event %d of the wiretap forwards call %d, which event %d has forwarded and nobody has answered: each call has a number of its own",
				e.I, e.Call, o.call.Sent.I)
		}
		x.open[e.Call] = &opened{key: e.Key, call: &call{
			Op: e.Op, Proc: e.Proc, Owner: e.Owner, Session: e.Session, Token: e.Token, Sent: Mark{e.I, e.T}, TTL: x.asked[e.Call],
		}}
		delete(x.asked, e.Call)
	case e.W == history.Wiretap && e.Stage == history.Answered:
		delete(x.asked, e.Call) // of a call that was never forwarded
		if o := x.open[e.Call]; o != nil {
			delete(x.open, e.Call)
			if err := o.fits(e); err != nil {
				return err
			}
			return x.answered(o, e)
		}
	case e.W == history.LockDB && e.Op == history.OpWatermark:
		x.covered = max(x.covered, e.Covers)
		x.mark(e.T)
	case e.W == history.LockDB && e.Op == history.OpCommit:
		return x.commit(e)
	}
	return nil
}

// quiet is how long no watermark may come before the lock store counts as standing still: several should have.
const quiet = int64(300 * time.Millisecond)

// mark notes that at t the lock store was seen to be at work.
func (x *extract) mark(t int64) {
	if t-x.marked > quiet {
		x.frame.Silences = append(x.frame.Silences, silence{x.marked, t})
	}
	x.marked = t
}

// followed lists the operations that say something about a key, and those that show the lock store's clock.
func followed(op contract.Op) bool {
	switch op {
	case contract.OpAcquire, contract.OpRenew, contract.OpRelease, contract.OpRevoke, contract.OpHeartbeat:
		return true
	}
	return false
}

// body is what answers of the lock server say, as far as it matters here.
type body struct {
	AcquiredAt    time.Time `json:"acquiredAt"`
	ExpiresAt     time.Time `json:"expiresAt"`
	TTLMillis     int64     `json:"ttlMillis"`
	ServerTime    time.Time `json:"serverTime"`
	RevokedToken  int64     `json:"revokedToken"`
	NewTokenFloor int64     `json:"newTokenFloor"`
}

func (x *extract) answered(o *opened, e *history.Event) error {
	c := o.call
	c.Back, c.Type, c.Status, c.Code = Mark{e.I, e.T}, e.Type, e.Status, e.Code
	c.Granted, c.Stored = e.Granted, e.Highest
	var b body
	if e.Type == contract.OK && c.Op != contract.OpRelease {
		// What cannot be read is no reading of a clock, and no revocation: the answer says nothing then.
		if json.Unmarshal([]byte(e.Res), &b) != nil {
			b = body{}
		}
	}
	if x.frame.Alone {
		return x.answeredAlone(o, &b, e)
	}
	switch c.Op {
	case contract.OpHeartbeat:
		return x.read(b.ServerTime, c)
	case contract.OpAcquire:
		if err := x.read(b.AcquiredAt, c); err != nil {
			return err
		}
	case contract.OpRevoke:
		c.Revoked, c.Floor = b.RevokedToken, b.NewTokenFloor
	}
	if e.Type == contract.OK && (c.Op == contract.OpAcquire && c.Granted == 0 || c.Op == contract.OpRevoke && c.Revoked == 0) {
		x.unsettle++
	}
	return x.put(o.key, c)
}

// put sorts a call to its key.
func (x *extract) put(key string, c *call) error {
	if x.frame.Alone && c.Op == contract.OpAcquire && c.Session != "" {
		if x.acquired[key] == nil {
			x.acquired[key] = map[string]bool{}
		}
		x.acquired[key][c.Session] = true
	}
	return x.spool.put(key, entry{Call: c})
}

// read takes a reading of the lock store's clock: it was looked at while c was with the server.
func (x *extract) read(at time.Time, c *call) error {
	if at.IsZero() || x.timeless || c.Back.T-c.Sent.T > widest {
		return nil
	}
	r := reading{at.UnixMicro(), c.Sent.T, c.Back.T}
	x.back.take(r)
	return x.spool.look(r)
}

// maxEpochs bounds how many epochs a history may have: a run has a few.
const maxEpochs = 1000

// begin notes when an epoch begins: with whatever its witness records first, which is before any client is let in.
func (x *extract) begin(e *history.Event) error {
	if e.Epoch < 0 || e.Epoch >= maxEpochs {
		return fmt.Errorf("event %d is of epoch %d; epochs are counted from 0, and there are less than %d", e.I, e.Epoch, maxEpochs)
	}
	for len(x.frame.Epochs) <= e.Epoch {
		x.frame.Epochs = append(x.frame.Epochs, e.T)
	}
	return nil
}

// commit takes one transaction of the lock store.
func (x *extract) commit(e *history.Event) error {
	ended := map[string]bool{}
	floors := map[string][2]int64{}
	for i := range e.Changes {
		switch ch := &e.Changes[i]; {
		case ch.Table == "lock_session" && ch.Kind == history.Delete:
			ended[ch.Old["session_id"]] = true
		case ch.Table == "lock_revocation" && ch.New != nil:
			floor := max(history.Int(ch.New["token_floor"]), history.Int(ch.New["new_floor"]))
			floors[ch.New["lock_key"]] = [2]int64{history.Int(ch.New["prev_token"]), floor}
		}
	}
	for i := range e.Changes {
		ch := &e.Changes[i]
		if ch.Table != "lock_entry" {
			continue
		}
		c, key := changeOf(e, ch, x.covered), rowKey(ch)
		x.timeless = x.timeless || c.Kind == granted && c.Expires == 0
		if ch.New == nil {
			switch r := floors[key]; {
			case ended[c.Session]:
				c.Kind = swept
			case r[0] == c.Token && r[0] > 0:
				c.Kind, c.Floor = revoked, r[1]
			}
		}
		if err := x.spool.put(key, entry{Change: c}); err != nil {
			return err
		}
	}
	return nil
}

func rowKey(ch *history.Change) string {
	if ch.New != nil {
		return ch.New["lock_key"]
	}
	return ch.Old["lock_key"]
}

func changeOf(e *history.Event, ch *history.Change, covered int64) *change {
	row, kind := ch.New, granted
	switch {
	case ch.New == nil:
		row, kind = ch.Old, released
	case ch.Kind == history.Update && sameGrant(ch):
		kind = extended
	}
	return &change{
		Mark: Mark{e.I, e.T}, Since: covered, Epoch: e.Epoch, Kind: kind, Proc: e.Proc,
		Token: history.Int(row["fencing_token"]), Owner: row["owner_id"], Session: row["session_id"], TTL: history.Int(row["ttl_ms"]),
		Acquired: history.Micros(row["acquired_at"]), Expires: history.Micros(row["expires_at"]), Committed: e.Committed,
	}
}

// sameGrant tells a renewal from a grant: whatever else an update changes, it grants anew.
func sameGrant(ch *history.Change) bool {
	for _, column := range []string{"owner_id", "session_id", "fencing_token", "acquired_at"} {
		if ch.Old[column] != ch.New[column] {
			return false
		}
	}
	return true
}

// finish ends the history: the calls that are still open were never answered.
func (x *extract) finish() error {
	x.mark(x.frame.End)
	x.frame.Steps = x.back.steps
	x.frame.Short, x.frame.Covers = x.cut.short, x.cut.covers
	for _, id := range sortedKeys(x.open) {
		if o := x.open[id]; x.frame.Alone && OfSessions(o.call.Op) {
			if err := x.session(o.call, 0); err != nil {
				return err
			}
		} else if o.call.Op != contract.OpHeartbeat {
			if err := x.put(o.key, o.call); err != nil {
				return err
			}
		}
	}
	return nil
}

// frameOf is the frame for one key: of all sessions it has those that asked for that key.
func (x *extract) frameOf(key string) *frame {
	f := x.frame
	f.Sessions = map[string]session{}
	for id := range x.acquired[key] {
		if s, known := x.frame.Sessions[id]; known {
			f.Sessions[id] = s
		}
	}
	return &f
}

// readHistory sorts the history in dir into s.
func readHistory(dir string, s *spool, alone, reentrant bool) (*extract, error) {
	r, err := history.Open(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	x := newExtract(s, alone)
	x.frame.Reentrant = reentrant
	for {
		var e history.Event
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return x, x.finish()
		} else if err != nil {
			return nil, fmt.Errorf("read the history: %w", err)
		}
		if err := x.observe(&e); err != nil {
			return nil, err
		}
	}
}
