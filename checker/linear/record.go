package linear

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"fenceproof/checker/contract"
)

// Mark is an event: its place in the history and when it was recorded.
type Mark struct{ I, T int64 }

// call is one request about a key, from its forwarding to its answer.
type call struct {
	Op             contract.Op
	Proc           contract.Process
	Owner, Session string
	Token          int64 // that it presented
	Sent, Back     Mark  // Back is zero where no answer came before the history ended
	Type           contract.Type
	Status         int
	Code           contract.Code
	Granted        int64 // acquire: the granted token
	Revoked, Floor int64 // revoke: what the answer says
	Stored         int64 // revoke: the token that the key was held under, where that was in the way
	TTL            int64 // acquire, renew: the lease that was asked for or given, in milliseconds; 0 where nobody said. Without a log only
}

// unknown tells whether nobody can say from the answer alone what became of the request.
func (c *call) unknown() bool { return c.Back.I == 0 || c.Type == contract.Info }

// unanswer makes c a call that nobody answered.
func (c *call) unanswer() {
	c.Back, c.Type, c.Status, c.Code = Mark{}, contract.Info, 0, ""
	c.Granted, c.Revoked, c.Floor = 0, 0, 0
}

// change is what one commit of the lock store did to a key.
type change struct {
	Mark
	Since     int64 // everything committed before this T had been recorded before
	Epoch     int
	Kind      changeKind
	Token     int64
	Owner     string
	Session   string
	TTL       int64 // milliseconds, 0 where the row does not say
	Acquired  int64 // by the database's own clock, microseconds since 1970; 0 where it has none
	Expires   int64
	Committed int64
	Floor     int64 // ended by a revoke: the floor of later tokens
	Proc      contract.Process
}

type changeKind uint8

const (
	granted changeKind = iota
	extended
	released // ended, and the commit does not say why
	swept    // ended together with its session
	revoked  // ended by a revoke
)

// frame is what all keys of a history share.
type frame struct {
	Epochs   []int64   // when each epoch began, by T; the first is 0
	Steps    []step    // back of the lock store's clock
	Silences []silence // of the lock store's log, in their order
	End      int64     // T of the last event
	// Short says that the log was not read to its end, as the store's clock was moved: it has all that was committed before
	// Covers, by T, and calls that were not answered before then count as unanswered.
	Short  bool
	Covers int64
	// Alone says that there is no log of the lock store: the answers alone are judged.
	Alone     bool
	Reentrant bool               // then: a holder may be granted the key again
	Sessions  map[string]session // then, by id: those that were seen to be opened or kept alive
}

// silence is a time, by T, in which no watermark of the lock store's log came.
type silence struct{ From, To int64 }

// entry is one record of a key: a call or a change.
type entry struct {
	Call   *call
	Change *change
}

// task is what a key's checker is told. The history's frame follows it, then the key's entries, and then the readings of
// the lock store's clock.
type task struct {
	Key      string
	Frame    int64  // bytes of the frame
	Entries  int64  // bytes of the entries
	Readings int64  // bytes of the readings
	Page     string // where porcupine's page goes if the key fails; "" for nowhere
	Budget   Budget
}

// keyLog is all that a history holds about one key, in the order of the history.
type keyLog struct {
	Calls   []*call
	Changes []*change
}

// expiries are the times of the lock store's clock at which leases of k end.
func (k *keyLog) expiries() (times []int64) {
	for _, c := range k.Changes {
		if c.Expires > 0 {
			times = append(times, c.Expires)
		}
	}
	return times
}

func readKey(r io.Reader) (*keyLog, error) {
	k, names := &keyLog{}, names{}
	for d := gob.NewDecoder(r); ; {
		var e entry
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return k, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the operations of a key: %w", err)
		}
		if c := e.Call; c != nil {
			c.Owner, c.Session = names.of(c.Owner), names.of(c.Session)
			c.Proc, c.Op = contract.Process(names.of(string(c.Proc))), contract.Op(names.of(string(c.Op)))
			c.Code, c.Type = contract.Code(names.of(string(c.Code))), contract.Type(names.of(string(c.Type)))
			k.Calls = append(k.Calls, c)
		} else if c := e.Change; c != nil {
			c.Owner, c.Session, c.Proc = names.of(c.Owner), names.of(c.Session), contract.Process(names.of(string(c.Proc)))
			k.Changes = append(k.Changes, c)
		}
	}
}

// names keeps one copy of each name: there are few, and many operations that bear them.
type names map[string]string

func (n names) of(s string) string {
	if kept, ok := n[s]; ok {
		return kept
	}
	n[s] = s
	return s
}

func readFrame(r io.Reader) (*frame, error) {
	var f frame
	if err := gob.NewDecoder(r).Decode(&f); err != nil {
		return nil, fmt.Errorf("read what the keys share: %w", err)
	}
	return &f, nil
}

func writeFrame(f *frame) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(f); err != nil {
		return nil, fmt.Errorf("write down what the keys share: %w", err)
	}
	return b.Bytes(), nil
}
