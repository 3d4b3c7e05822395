package jepsen

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/edn"
	"fenceproof/checker/history"
	"fenceproof/checker/linear"
)

// ExportOptions say how a history is written for Jepsen.
type ExportOptions struct {
	// Key names the only lock to write of; "" writes of all, with [key value] as the value of each operation.
	Key string
}

// Exported says what was written.
type Exported struct {
	Operations, Calls int64
	Open              int64 // calls that have no definite end
}

// ErrNotWhole says that a history cannot be exported because answers lack in it, ErrNoCalls that it has no call on a lock.
var (
	ErrNotWhole = errors.New("the answers are not whole, and a history that lacks some proves nothing")
	ErrNoCalls  = errors.New("the history has no call on a lock")
)

// Export writes what the wiretap of the history in dir saw of its locks as a history of Jepsen's: each call's forwarding as an
// invocation, its answer as the completion. A process of Jepsen's does one thing at a time and none after something
// of which nobody knows how it ended; so a client gets as many process numbers as it needs.
func Export(dir string, out io.Writer, o ExportOptions) (Exported, error) {
	if err := exportable(dir, o); err != nil {
		return Exported{}, err
	}
	x := &exporter{options: o, out: bufio.NewWriter(out), open: map[int64]*going{}, asked: map[int64]int64{}, idle: map[contract.Process][]int64{}}
	if _, err := each(dir, x.observe); err != nil {
		return x.made, err
	}
	x.made.Open += int64(len(x.open))
	if err := x.out.Flush(); err != nil {
		return x.made, fmt.Errorf("write the history for Jepsen: %w", err)
	}
	return x.made, nil
}

// exportable sees that there is a call on a lock to write of, and that no answer lacks, before anything is written.
func exportable(dir string, o ExportOptions) error {
	calls := 0
	gaps, err := each(dir, func(e *history.Event) error {
		if e.Stage == history.Forwarded && o.wants(e) && !linear.OfSessions(e.Op) {
			calls++
		}
		return nil
	})
	why := gaps[history.Wiretap]
	switch {
	case err != nil:
		return err
	case why != "":
		return fmt.Errorf("%w: %s", ErrNotWhole, why)
	case calls == 0 && o.Key != "":
		return fmt.Errorf("%w %q", ErrNoCalls, o.Key)
	case calls == 0:
		return ErrNoCalls
	}
	return nil
}

// wants tells whether e is written. Sessions hold any lock.
func (o *ExportOptions) wants(e *history.Event) bool {
	return e.W == history.Wiretap && exported[e.Op] != "" && (o.Key == "" || e.Key == o.Key || linear.OfSessions(e.Op))
}

// each hands all events of the history in dir to take, and tells what lacks in it.
func each(dir string, take func(*history.Event) error) (map[history.Witness]string, error) {
	r, err := history.Open(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		var e history.Event
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			return r.Gaps(), nil
		} else if err != nil {
			return nil, fmt.Errorf("read the history: %w", err)
		}
		if err := take(&e); err != nil {
			return nil, fmt.Errorf("write the history for Jepsen: %w", err)
		}
	}
}

// exporter is a history on its way to Jepsen's form.
type exporter struct {
	options ExportOptions
	out     *bufio.Writer
	line    []byte
	open    map[int64]*going
	asked   map[int64]int64 // by call that was received and not forwarded yet: the lease that it asks for
	idle    map[contract.Process][]int64
	next    int64 // process
	made    Exported
}

// going is a call under way.
type going struct {
	process int64
	holder  string
	asked   int64 // the lease that its request names, in milliseconds
	event   history.Event
}

// exported are the operations that say something about who holds a lock, under the names that tests give them.
var exported = map[contract.Op]string{
	contract.OpAcquire: "acquire", contract.OpRelease: "release", contract.OpRenew: "renew", contract.OpRevoke: "revoke",
	contract.OpOpenSession: "open-session", contract.OpHeartbeat: "heartbeat", contract.OpCloseSession: "close-session",
}

func (x *exporter) observe(e *history.Event) error {
	if !x.options.wants(e) {
		return nil
	}
	switch e.Stage {
	case history.Received:
		if ttl := linear.LeaseAsked(e); ttl > 0 {
			x.asked[e.Call] = ttl
		}
	case history.Forwarded:
		ttl := x.asked[e.Call]
		delete(x.asked, e.Call)
		return x.invoke(e, ttl)
	case history.Answered:
		delete(x.asked, e.Call) // one that was never forwarded
		if g := x.open[e.Call]; g != nil {
			delete(x.open, e.Call)
			return x.complete(g, e)
		}
	}
	return nil
}

// invoke writes an invocation, by the lowest process of the client that has nothing to do.
func (x *exporter) invoke(e *history.Event, ttl int64) error {
	g := &going{event: *e, holder: cmp.Or(e.Session, e.Owner, string(e.Proc))}
	g.event.Req, g.asked = "", ttl
	if idle := x.idle[e.Proc]; len(idle) > 0 {
		g.process, x.idle[e.Proc] = idle[0], idle[1:]
	} else {
		g.process = x.next
		x.next++
	}
	x.open[e.Call] = g
	x.made.Calls++
	x.begin(g, e, contract.Invoke)
	x.value(e, g.value(e.Token, 0, false))
	return x.finish(g, ttl)
}

// complete writes a completion. Whoever does not know how an operation ended does no other.
func (x *exporter) complete(g *going, e *history.Event) error {
	x.begin(g, e, e.Type)
	b := readAnswer(e)
	switch e.Op {
	case contract.OpAcquire:
		x.value(e, g.value(e.Granted, 0, e.Type == contract.OK))
	case contract.OpRevoke:
		x.value(e, g.value(max(b.RevokedToken, e.Highest), b.NewTokenFloor, false))
	default:
		x.value(e, g.value(e.Token, 0, e.Type == contract.OK && !linear.OfSessions(e.Op)))
	}
	if e.Type != contract.OK {
		why := "no-answer"
		if e.Type == contract.Fail {
			why = "failed" // for a reason that the answer does not say
		}
		x.line = append(x.line, ", :error :"...)
		x.line = append(x.line, cmp.Or(wordOf(e.Code), why)...)
	}
	if e.Op == contract.OpOpenSession {
		g.event.Session = cmp.Or(e.Session, g.event.Session)
	}
	if e.Type == contract.Info {
		x.made.Open++
	} else {
		idle := x.idle[g.event.Proc]
		at, _ := slices.BinarySearch(idle, g.process)
		x.idle[g.event.Proc] = slices.Insert(idle, at, g.process)
	}
	if g.asked > 0 {
		return x.finish(g, 0) // the invocation has said it
	}
	return x.finish(g, b.lease(e.Op))
}

// answer is what bodies of the lock server say, as far as Jepsen's form has it.
type answer struct {
	AcquiredAt    time.Time `json:"acquiredAt"`
	ExpiresAt     time.Time `json:"expiresAt"`
	TTLMillis     int64     `json:"ttlMillis"`
	RevokedToken  int64     `json:"revokedToken"`
	NewTokenFloor int64     `json:"newTokenFloor"`
}

func readAnswer(e *history.Event) (b answer) {
	if e.Type != contract.OK || json.Unmarshal([]byte(e.Res), &b) != nil {
		return answer{} // what cannot be read says nothing
	}
	return b
}

// lease is how long the answer's lease lasts, in milliseconds; a renewal's answer does not say.
func (b *answer) lease(op contract.Op) int64 {
	switch {
	case !linear.TakesLease(op) || op == contract.OpRenew:
		return 0
	case b.TTLMillis > 0 || b.AcquiredAt.IsZero():
		return b.TTLMillis
	}
	return max(0, b.ExpiresAt.Sub(b.AcquiredAt).Milliseconds())
}

// begin begins a line.
func (x *exporter) begin(g *going, e *history.Event, typ contract.Type) {
	x.line = fmt.Appendf(x.line[:0], "{:index %d, :type :%s, :process %d, :f :%s, :value ", x.made.Operations, typ, g.process, exported[e.Op])
	g.event.T = e.T
	x.made.Operations++
}

// value is what an operation says about the lock, as tests of Hazelcast's fenced lock write it.
func (g *going) value(token, floor int64, client bool) []byte {
	var b []byte
	if client {
		b = append(b, ":client "...)
		b = edn.AppendString(b, g.holder)
	}
	for _, n := range []struct {
		name string
		n    int64
	}{{":fence ", token}, {":floor ", floor}} {
		if n.n > 0 {
			if len(b) > 0 {
				b = append(b, ", "...)
			}
			b = strconv.AppendInt(append(b, n.name...), n.n, 10)
		}
	}
	if len(b) == 0 {
		return []byte("nil")
	}
	return append(append([]byte{'{'}, b...), '}')
}

func (x *exporter) value(e *history.Event, inner []byte) {
	if linear.OfSessions(e.Op) || x.options.Key != "" {
		x.line = append(x.line, inner...)
		return
	}
	x.line = edn.AppendString(append(x.line, '['), e.Key)
	x.line = append(append(append(x.line, ' '), inner...), ']')
}

// finish ends the line with what stands beside the value.
func (x *exporter) finish(g *going, ttl int64) error {
	for _, s := range []struct{ name, text string }{{", :session ", g.event.Session}, {", :owner ", g.event.Owner}, {", :node ", string(g.event.Proc)}} {
		if s.text != "" {
			x.line = edn.AppendString(append(x.line, s.name...), s.text)
		}
	}
	if ttl > 0 {
		x.line = fmt.Appendf(x.line, ", :ttl-ms %d", ttl)
	}
	x.line = fmt.Appendf(x.line, ", :time %d}\n", g.event.T)
	_, err := x.out.Write(x.line)
	return err
}
