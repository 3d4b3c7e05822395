package linear

import (
	"errors"
	"fmt"
	"io"

	"fenceproof/checker/history"
)

// witnesses reads the history once more and puts the events that prove them to the violations. Without a violation it
// reads nothing.
func (j *judgement) witnesses(dir string) error {
	wanted := map[int64][]int{}
	for n, refs := range j.proof {
		for _, i := range refs {
			wanted[i] = append(wanted[i], n)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	r, err := history.Open(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		var e history.Event
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the history: %w", err)
		}
		for _, n := range wanted[e.I] {
			v := &j.inv.Violations[n]
			v.Events = append(v.Events, abridged(&e, v.Key))
		}
	}
}

// shownColumns are the columns that a proof shows of each table. The history has the whole rows.
var shownColumns = map[string][]string{
	"lock_entry":      {"lock_key", "owner_id", "session_id", "fencing_token", "acquired_at", "expires_at"},
	"lock_session":    {"session_id", "owner_id"},
	"lock_revocation": {"lock_key", "prev_token", "operator", "reason"},
}

// abridged is e without bodies, and without what it says of other keys.
func abridged(e *history.Event, key string) history.Event {
	c := *e
	c.Req, c.Res, c.Changes = "", "", nil
	for i := range e.Changes {
		ch := &e.Changes[i]
		columns := shownColumns[ch.Table]
		if columns == nil || ch.Table != "lock_session" && rowKey(ch) != key {
			continue
		}
		c.Changes = append(c.Changes, history.Change{Table: ch.Table, Kind: ch.Kind, Old: pick(ch.Old, columns), New: pick(ch.New, columns)})
	}
	return c
}

func pick(row map[string]string, columns []string) map[string]string {
	if row == nil {
		return nil
	}
	picked := make(map[string]string, len(columns))
	for _, c := range columns {
		if v, ok := row[c]; ok {
			picked[c] = v
		}
	}
	return picked
}
