// Package jepsen reads and writes the histories of locks that Jepsen's tests record: EDN, one operation after the other. An
// imported history is one of docs/history.md with a single witness, the wiretap, for all that Jepsen saw is what its
// clients asked and were told.
package jepsen

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/edn"
)

// Error says where a history is none of a lock. Line and Column count from 1.
type Error = edn.Error

func wrong(v *edn.Value, format string, args ...any) error {
	return &Error{Line: v.Line, Column: v.Column, Msg: fmt.Sprintf(format, args...)}
}

// op is one operation of a history, invocation or completion, as far as it concerns a lock.
type op struct {
	line, column int32
	typ          contract.Type
	f            contract.Op
	process      string
	time         int64 // nanoseconds; -1 where the history has none
	said
}

// said is what the value of an operation, and the keys beside it, say.
type said struct {
	key     string
	name    string // a value that is a name: of the lock, or of nothing
	long    bool   // of which the end was cut off
	big     bool   // it is a whole number of more than 64 bits
	bare    bool   // it is a whole number, and token is that
	session string
	owner   string
	client  string
	token   int64
	floor   int64
	ttl     int64 // milliseconds
	error   string
}

// ops reads the operations of a lock from in; what else it holds is counted.
func ops(in io.Reader, each func(op) error) (passedOver map[string]int, err error) {
	r := edn.NewReader(in)
	if _, err := r.Enter(); err != nil {
		return nil, err
	}
	passedOver = map[string]int{}
	for {
		v, err := r.Next()
		if errors.Is(err, io.EOF) {
			return passedOver, nil
		}
		if err != nil {
			return nil, err
		}
		o, what, err := read(&v)
		if err != nil {
			return nil, err
		}
		if what != "" {
			if len(passedOver) < maxPassedOver || passedOver[what] > 0 {
				passedOver[what]++
			}
			continue
		}
		if err := each(o); err != nil {
			return nil, err
		}
	}
}

// maxPassedOver bounds how many kinds of other operations are told apart.
const maxPassedOver = 100

// read takes an operation out of a form: a map, or a record, which is a tag before a map. other names one that is none of a
// lock's clients.
func read(v *edn.Value) (o op, other string, err error) {
	form := v
	if v.Kind == edn.Tagged && len(v.Items) == 1 {
		if form = &v.Items[0]; form.Kind != edn.Map {
			return o, "", wrong(v, "#%s is no operation: a record is written as #%s{:type :invoke, …}", v.Text, v.Text)
		}
	}
	if form.Kind != edn.Map {
		return o, "", wrong(v, "an operation is a map: {:type :invoke, :f :acquire, :process 0, …}")
	}
	o.line, o.column, o.time = int32(v.Line), int32(v.Column), -1
	if err := o.readType(form); err != nil {
		return o, "", err
	}
	p, ok := form.Get("process")
	switch n, whole := p.Int(); {
	case !ok:
		return o, "", wrong(form, "the operation has no :process")
	case !whole: // :nemesis
		return o, "process :" + p.Text, nil
	case n < 0:
		return o, "", wrong(&p, "a :process is counted from 0, and not %d", n)
	default:
		o.process = fmt.Sprint(n)
	}
	f, ok := form.Get("f")
	if !ok || f.Kind != edn.Keyword && f.Kind != edn.String {
		return o, "", wrong(form, "the operation has no :f")
	}
	if o.f, ok = operations[f.Text]; !ok {
		return o, ":f :" + f.Text, nil
	}
	if t, ok := form.Get("time"); ok && t.Kind != edn.Nil {
		if o.time, ok = t.Int(); !ok || o.time < 0 {
			return o, "", wrong(&t, ":time is a number of nanoseconds since the test began, and not %.40s", t.Text)
		}
	}
	if err := o.readSaid(form); err != nil {
		return o, "", err
	}
	return o, "", o.cut(form)
}

// maxName bounds names and texts, as bodies are bounded in docs/history.md.
const maxName = 4096

// cut sees that no name is longer than a name can be, and cuts what is told apart by nobody.
func (o *op) cut(form *edn.Value) error {
	for _, s := range []string{o.key, o.session, o.owner, o.client} {
		if len(s) > maxName {
			return wrong(form, "a name has more than %d bytes: %.40s…", maxName, s)
		}
	}
	o.long = len(o.name) > maxName
	for _, s := range []*string{&o.name, &o.error} {
		if len(*s) > maxName {
			*s = strings.ToValidUTF8(strings.Clone((*s)[:maxName]), "")
		}
	}
	return nil
}

func (o *op) readType(form *edn.Value) error {
	t, ok := form.Get("type")
	if _, isTest := form.Get("history"); !ok && isTest {
		return wrong(form, "this is a map with a :history in it; a history is its operations alone, as in the file history.edn")
	}
	if !ok {
		return wrong(form, "the operation has no :type")
	}
	switch o.typ = contract.Type(t.Text); o.typ {
	case contract.Invoke, contract.OK, contract.Fail, contract.Info:
		return nil
	}
	return wrong(&t, ":type is :invoke, :ok, :fail or :info, and not %.40s", t.Text)
}

// operations are the names that tests give to what clients of a lock do.
var operations = map[string]contract.Op{
	"acquire": contract.OpAcquire, "lock": contract.OpAcquire, "try-lock": contract.OpAcquire,
	"release": contract.OpRelease, "unlock": contract.OpRelease,
	"renew": contract.OpRenew, "revoke": contract.OpRevoke,
	"open-session": contract.OpOpenSession, "heartbeat": contract.OpHeartbeat, "close-session": contract.OpCloseSession,
}

// readSaid reads what stands in :value, and beside it.
func (o *op) readSaid(form *edn.Value) error {
	v, _ := form.Get("value")
	if v.Kind == edn.Vector && len(v.Items) == 2 { // [key value], of a test of several independent locks
		o.key = plain(&v.Items[0])
		v = v.Items[1]
	}
	switch v.Kind {
	case edn.Map:
		if err := o.fields(&v); err != nil {
			return err
		}
	case edn.Number:
		n, ok := v.Int()
		if o.name, o.big = v.Text, !ok && strings.Trim(v.Text, "+-0123456789N") == ""; ok {
			o.token, o.bare = n, true
		}
	case edn.String, edn.Keyword, edn.Symbol:
		o.name = v.Text
	}
	if e, ok := form.Get("error"); ok {
		o.error = reason(&e)
	}
	if err := o.fields(form); err != nil {
		return err
	}
	return o.tokenOf(&v, form)
}

// tokenOf refuses a grant that names a token, in its value or beside it, of which the order could not be judged: it would be
// taken for one that has none. A release may name such a one; clients do that hold nothing.
func (o *op) tokenOf(value, form *edn.Value) error {
	if o.typ != contract.OK || o.f != contract.OpAcquire || o.token > 0 && !o.bare {
		return nil
	}
	for _, m := range []*edn.Value{value, form} {
		for _, name := range tokens {
			v, ok := m.Get(name)
			if !ok || v.Kind == edn.Nil {
				continue
			}
			is := "no number"
			switch {
			case v.Kind == edn.String:
				is = fmt.Sprintf("%.40q", v.Text)
			case v.Kind == edn.Number:
				is = fmt.Sprintf("%.40s", v.Text)
			}
			return wrong(&v, ":%s of a grant is %s; a token is a whole number of 64 bits, from 1", name, is)
		}
	}
	return nil
}

// tokens are the keys that name a fencing token.
var tokens = []string{"fence", "token"}

// fields reads the keys that say more, of an operation or of its value.
func (o *op) fields(m *edn.Value) error {
	for _, f := range []struct {
		to    *string
		names []string
	}{
		{&o.key, []string{"key", "lock"}}, {&o.session, []string{"session"}}, {&o.owner, []string{"owner"}}, {&o.client, []string{"client"}},
	} {
		for _, name := range f.names {
			if v, ok := m.Get(name); ok && *f.to == "" {
				*f.to = plain(&v)
			}
		}
	}
	for _, f := range []struct {
		to    *int64
		names []string
	}{
		{&o.token, tokens}, {&o.floor, []string{"floor"}}, {&o.ttl, []string{"ttl-ms"}},
	} {
		for _, name := range f.names {
			v, ok := m.Get(name)
			n, whole := v.Int()
			switch {
			case !ok || v.Kind == edn.Nil:
			case !whole && v.Kind == edn.Number:
				return wrong(&v, ":%s is %.40s; it is a whole number of 64 bits", name, v.Text)
			case whole && n > 0:
				*f.to = n
				o.bare = o.bare && f.to != &o.token
			}
		}
	}
	return nil
}

// plain is a name as text: what stands there, or of what has parts the parts.
func plain(v *edn.Value) string {
	if v.Kind == edn.Nil {
		return ""
	}
	if len(v.Items) == 0 {
		return v.Text
	}
	parts := make([]string, len(v.Items))
	for i := range v.Items {
		parts[i] = plain(&v.Items[i])
	}
	return strings.Join(parts, " ")
}

// reasons are the keys under which errors that are maps, exceptions among them, say what was wrong.
var reasons = []string{"type", "cause", "message", "error", "code", "via"}

// reason is the first name or text in an :error, which tests write as a keyword, a string, a vector of these, a map or an
// exception. Of a map its values are reasons, and not its keys.
func reason(v *edn.Value) string {
	switch v.Kind {
	case edn.Keyword, edn.String, edn.Symbol:
		return v.Text
	case edn.Map:
		for _, key := range reasons {
			if in, ok := v.Get(key); ok {
				if s := reason(&in); s != "" {
					return s
				}
			}
		}
		for i := 1; i < len(v.Items); i += 2 {
			if s := reason(&v.Items[i]); s != "" {
				return s
			}
		}
		return ""
	}
	for i := range v.Items {
		if s := reason(&v.Items[i]); s != "" {
			return s
		}
	}
	return ""
}
