package history

import (
	"errors"
	"fmt"
)

// Decoder reads events from JSON text. Short strings that come again and again (ids, names, codes) are kept once, in a
// table of fixed size: a history of a million events has few thousand of them. The zero value is ready; a Decoder
// serves one goroutine.
type Decoder struct {
	scanner
}

// Decode reads the one JSON object in line into e, which it overwrites. Unknown members are passed over, members that
// are not there or null stay zero; what is not JSON, has a member of the wrong type, or says a name twice with another
// meaning than its last one, is an error. Nothing in e refers to line afterwards.
func (d *Decoder) Decode(line []byte, e *Event) error {
	*e = Event{}
	d.reset(line)
	err := d.object(func(name []byte) error { return d.member(e, name) })
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return fmt.Errorf("column %d: %w", d.pos+1, err)
	}
	return nil
}

func (d *Decoder) member(e *Event, name []byte) (err error) {
	switch string(name) {
	case "i":
		return d.int64(&e.I)
	case "w":
		return decodeString(d, &e.W)
	case "t":
		return d.int64(&e.T)
	case "type":
		return decodeString(d, &e.Type)
	case "proc":
		return decodeString(d, &e.Proc)
	case "op":
		return decodeString(d, &e.Op)
	case "stage":
		return decodeString(d, &e.Stage)
	case "call":
		return d.int64(&e.Call)
	case "dup_of":
		return d.int64(&e.DupOf)
	case "link":
		return decodeString(d, &e.Link)
	case "key":
		return decodeString(d, &e.Key)
	case "payout":
		return decodeString(d, &e.Payout)
	case "account":
		return decodeString(d, &e.Account)
	case "owner":
		return decodeString(d, &e.Owner)
	case "session":
		return decodeString(d, &e.Session)
	case "token":
		return d.token(&e.Token)
	case "status":
		return decodeInt(d, &e.Status)
	case "code":
		return decodeString(d, &e.Code)
	case "outcome":
		return decodeString(d, &e.Outcome)
	case "granted":
		return d.token(&e.Granted)
	case "highest":
		return d.token(&e.Highest)
	case "req":
		return decodeString(d, &e.Req)
	case "res":
		return decodeString(d, &e.Res)
	}
	return d.fact(e, name)
}

func (d *Decoder) fact(e *Event, name []byte) error {
	switch string(name) {
	case "lsn":
		return decodeString(d, &e.LSN)
	case "xid":
		return decodeInt(d, &e.XID)
	case "epoch":
		return decodeInt(d, &e.Epoch)
	case "committed":
		return d.int64(&e.Committed)
	case "changes":
		return d.changes(&e.Changes)
	case "covers":
		return d.int64(&e.Covers)
	case "amount":
		return d.int64(&e.Amount)
	case "currency":
		return decodeString(d, &e.Currency)
	case "rail_ref":
		return decodeString(d, &e.RailRef)
	case "window":
		return decodeInt(d, &e.Window)
	case "phase":
		return decodeString(d, &e.Phase)
	case "target":
		return decodeString(d, &e.Target)
	case "event":
		return decodeString(d, &e.Event)
	case "attrs":
		return d.stringMap(&e.Attrs)
	case "msg":
		return decodeString(d, &e.Msg)
	}
	return d.skip()
}

func (d *Decoder) changes(out *[]Change) error {
	*out = nil
	if d.null() {
		return nil
	}
	var cs []Change
	err := d.array(func() error {
		var c Change
		if err := d.object(func(name []byte) error {
			switch string(name) {
			case "table":
				return decodeString(d, &c.Table)
			case "kind":
				return decodeString(d, &c.Kind)
			case "old":
				return d.stringMap(&c.Old)
			case "new":
				return d.stringMap(&c.New)
			}
			return d.skip()
		}); err != nil {
			return err
		}
		cs = append(cs, c)
		return nil
	})
	*out = cs
	return err
}

// stringMap reads an object of strings. A member that is null is left out: that is how a row says NULL.
func (d *Decoder) stringMap(out *map[string]string) error {
	*out = nil
	if d.null() {
		return nil
	}
	m := make(map[string]string, 8)
	err := d.object(func(name []byte) error {
		key := d.keep(name) // before the value: name may lie in a buffer that the value needs
		if d.null() {
			return nil
		}
		b, err := d.text()
		if err != nil {
			return err
		}
		m[key] = d.keep(b)
		return nil
	})
	*out = m
	return err
}

func decodeString[T ~string](d *Decoder, out *T) error {
	*out = ""
	if d.null() {
		return nil
	}
	b, err := d.text()
	if err != nil {
		return err
	}
	*out = T(d.keep(b))
	return nil
}

func (d *Decoder) int64(out *int64) error {
	*out = 0
	if d.null() {
		return nil
	}
	n, err := d.number()
	*out = n
	return err
}

func decodeInt[T int | uint32](d *Decoder, out *T) error {
	var n int64
	if err := d.int64(&n); err != nil {
		return err
	}
	if *out = T(n); int64(*out) != n {
		return errors.New("the number does not fit")
	}
	return nil
}

// token reads a decimal string.
func (d *Decoder) token(out *int64) error {
	*out = 0
	if d.null() {
		return nil
	}
	b, err := d.text()
	if err != nil {
		return err
	}
	n, rest, ok := parseInt(b)
	if !ok || len(rest) > 0 {
		return errors.New("a token is a string of decimal digits")
	}
	*out = n
	return nil
}
