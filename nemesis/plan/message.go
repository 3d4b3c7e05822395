package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
)

// Faults of single messages.
const (
	// Delay keeps one message back for the step's time, or until the event that ends the step: the late write.
	Delay Fault = "delay"
	// Drop loses one message. Its client hears nothing until it gives up.
	Drop Fault = "drop"
	// Duplicate sends one request once more, after its answer and not before the step's delay has passed since it came. No
	// transfer is ever duplicated: each one that arrives moves money, and no fence could refuse the second.
	Duplicate Fault = "duplicate"
	// Reorder keeps one request back until a later write has been answered: see Behind. The step's time is how long it waits
	// for one.
	Reorder Fault = "reorder"
)

// Script is the nemesis of a plan whose steps were written by hand. A run of one proves something only if each of its
// steps had its effect.
const Script = "script"

// AnyExecutor stands in a link for whichever executor sends the message first.
const AnyExecutor = "executor-*"

// Message says which message of a link a step is about.
type Message struct {
	Side Side        `json:"side"`
	Op   contract.Op `json:"op"`
	// Nth counts such messages from the beginning of the step, from 1; left out it is 1. With a trigger only the messages
	// of the trigger's payout count.
	Nth int `json:"nth,omitempty"`
	// Behind, of Reorder, says which later write the request comes after; left out it is BehindLink.
	Behind Behind `json:"behind,omitempty"`
}

// Behind says which later write overtakes a request.
type Behind string

// What it comes behind.
const (
	BehindLink   Behind = "link"   // the next one over the same link
	BehindPayout Behind = "payout" // the next one about the same payout, over any link
)

// Side is one of the two messages of a call.
type Side string

// The sides.
const (
	Request Side = "request"
	Answer  Side = "answer"
)

// OnMessage tells whether f is a fault of a single message. Its target is a link; the step waits for its message until
// the drive ends, and its time counts from there.
func (f Fault) OnMessage() bool { return slices.Contains(messageFaults, f) }

// WaitsFrom tells whether s waits for its message from its own time on, beside all others. Steps on messages that have no
// time, or an event besides, wait in their order.
func (s Step) WaitsFrom() bool { return s.Fault.OnMessage() && s.On == "" && s.At > 0 }

var messageFaults = []Fault{Delay, Drop, Duplicate, Reorder}

// stops tells whether any step of p stops a process.
func (p Plan) stops() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return !s.Fault.OnMessage() && !s.Fault.OnLink() && !s.Fault.OnKey() })
}

// Link reads t as a link. Its client may be Holder or AnyExecutor.
func (t Target) Link() (contract.Link, error) { return contract.ParseLink(string(t)) }

// operations lists what a client sends to a server.
func operations(l contract.Link) []contract.Op {
	switch l {
	case contract.Link{From: contract.LockOperator, To: contract.LockServer}:
		return []contract.Op{contract.OpInspect, contract.OpRevoke}
	case contract.Link{From: contract.Auditor, To: contract.PaymentResource}:
		return []contract.Op{contract.OpListPayouts, contract.OpGetPayout, contract.OpGetAccount}
	case contract.Link{From: contract.Reconciler, To: contract.PaymentResource}:
		return []contract.Op{contract.OpListPayouts, contract.OpResolve}
	case contract.Link{From: contract.Reconciler, To: contract.RailStub}:
		return []contract.Op{contract.OpLookup}
	}
	switch l.To {
	case contract.LockServer:
		return []contract.Op{contract.OpOpenSession, contract.OpHeartbeat, contract.OpCloseSession, contract.OpAcquire, contract.OpRenew, contract.OpRelease}
	case contract.PaymentResource:
		return []contract.Op{contract.OpListPayouts, contract.OpClaim, contract.OpSubmitted, contract.OpOutcome, contract.OpPost}
	case contract.RailProxy:
		return []contract.Op{contract.OpSubmit}
	default:
		return []contract.Op{contract.OpTransfer}
	}
}

// links lists the links whose messages a step of p may be about.
func (p Plan) links() []Target {
	if p.forLocks() {
		return p.lockLinks()
	}
	clients := []string{string(Holder), AnyExecutor}
	for n := 1; n <= min(p.Executors, MaxExecutors); n++ {
		clients = append(clients, string(contract.Executor(n)))
	}
	var all []Target
	for _, c := range clients {
		for _, server := range []contract.Process{contract.LockServer, contract.PaymentResource, contract.RailProxy} {
			all = append(all, Target(contract.Link{From: contract.Process(c), To: server}.String()))
		}
	}
	others := []contract.Link{{From: contract.RailProxy, To: contract.RailStub}, {From: contract.Reconciler, To: contract.LockServer},
		{From: contract.Reconciler, To: contract.PaymentResource}, {From: contract.Reconciler, To: contract.RailStub}}
	if p.Audits > 0 {
		others = append(others, contract.Link{From: contract.Auditor, To: contract.PaymentResource})
	}
	for _, l := range others {
		all = append(all, Target(l.String()))
	}
	return all
}

// validateMessage says what is wrong with the parts of a step that only faults of single messages have.
func (s Step) validateMessage(p Plan) error {
	if !s.Fault.OnMessage() {
		if s.Message != nil {
			return fmt.Errorf("\"message\" belongs to %s, %s, %s and %s, not to %s", Delay, Drop, Duplicate, Reorder, s.Fault)
		}
		return nil
	}
	if s.Message == nil {
		return fmt.Errorf("%s needs a \"message\": {\"side\": \"request\", \"op\": \"submit\"}", s.Fault)
	}
	m, errs := s.Message, []error(nil)
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	name := strings.ReplaceAll(string(s.Target), "->", "→")
	if err := known("link", Target(name), p.links()); err != nil {
		errs = append(errs, err)
	} else if l, err := s.Target.Link(); err == nil {
		if err := known("operation", m.Op, operations(l)); err != nil {
			bad("on link %s: %w", l, err)
		}
		if m.Nth > 1 && anyClient(l.From) {
			_, noun := p.holders()
			bad("message %d of %s: messages are counted on one link, so name one of the %s", m.Nth, l, noun)
		}
		if l.To == contract.LockServer && s.Until != "" && !p.forLocks() {
			bad("a message to the lock server is about no payout, so no successor's write can end it: leave \"until\" out")
		}
		if l.From == contract.Process(Holder) && s.On == "" {
			bad("the holder's link needs an event \"on\" that says whose")
		}
	}
	if err := known("side", m.Side, []Side{Request, Answer}); err != nil {
		errs = append(errs, err)
	}
	if m.Nth < 0 {
		bad("there is no message number %d", m.Nth)
	}
	errs = append(errs, s.validateFate()...)
	return errors.Join(errs...)
}

// validateFate says what is wrong with what a step wants to become of its message.
func (s Step) validateFate() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	m := s.Message
	if s.Delay != 0 && s.Fault != Duplicate {
		bad("\"delay\" is for pauses and duplicates; a message is met when it comes")
	}
	if (s.Fault == Duplicate || s.Fault == Reorder) && m.Side != Request {
		bad("%s is for requests: nobody waits for a second answer, or for answers in their order", s.Fault)
	}
	if m.Behind != "" && s.Fault != Reorder {
		bad("\"behind\" is for %s", Reorder)
	} else if m.Behind != "" {
		if err := known("behind", m.Behind, []Behind{BehindLink, BehindPayout}); err != nil {
			errs = append(errs, err)
		}
	}
	switch {
	case s.Fault == Drop && (s.For != 0 || s.Until != ""):
		bad("a message that is dropped is gone: leave \"for\" and \"until\" out")
	case s.Fault == Duplicate && (s.For != 0 || s.Until != ""):
		bad("a request is sent once more at one moment: \"delay\" says when; leave \"for\" and \"until\" out")
	case s.Fault == Duplicate && m.Op == contract.OpTransfer:
		bad("a transfer is never duplicated: each one that reaches the rail moves money, and no fence could refuse the second")
	case s.Fault == Reorder && s.Until != "":
		bad("a later write ends a %s: leave \"until\" out", Reorder)
	case m.Behind == BehindPayout && !aboutPayout(m.Op):
		bad("a %s is about no payout: put it behind the next write of its %q", m.Op, BehindLink)
	}
	return errs
}

// aboutPayout tells whether a request of op names a payout.
func aboutPayout(op contract.Op) bool {
	return op.Fenced() || op == contract.OpGetPayout || op == contract.OpTransfer || op == contract.OpLookup
}
