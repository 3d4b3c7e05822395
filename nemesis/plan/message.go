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
}

// Side is one of the two messages of a call.
type Side string

// The sides.
const (
	Request Side = "request"
	Answer  Side = "answer"
)

// OnMessage tells whether f is a fault of a single message. Its target is a link; the step waits for its message until
// the drive ends, and its time counts from there.
func (f Fault) OnMessage() bool { return f == Delay || f == Drop }

// stops tells whether any step of p stops a process.
func (p Plan) stops() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return !s.Fault.OnMessage() && !s.Fault.OnLink() })
}

// Link reads t as a link. Its client may be Holder or AnyExecutor.
func (t Target) Link() (contract.Link, error) { return contract.ParseLink(string(t)) }

// operations lists what is sent to each server.
var operations = map[contract.Process][]contract.Op{
	contract.LockServer:      {contract.OpOpenSession, contract.OpHeartbeat, contract.OpCloseSession, contract.OpAcquire, contract.OpRenew, contract.OpRelease, contract.OpRevoke},
	contract.PaymentResource: {contract.OpListPayouts, contract.OpGetPayout, contract.OpClaim, contract.OpSubmitted, contract.OpOutcome, contract.OpPost},
	contract.RailProxy:       {contract.OpSubmit},
	contract.RailStub:        {contract.OpTransfer},
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
	return append(all, Target(contract.Link{From: contract.RailProxy, To: contract.RailStub}.String()))
}

// validateMessage says what is wrong with the parts of a step that only faults of single messages have.
func (s Step) validateMessage(p Plan) error {
	if !s.Fault.OnMessage() {
		if s.Message != nil {
			return fmt.Errorf("\"message\" belongs to %s and %s, not to %s", Delay, Drop, s.Fault)
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
		if err := known("operation", m.Op, operations[l.To]); err != nil {
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
	if s.Delay != 0 {
		bad("\"delay\" is for pauses; a message is met when it comes")
	}
	if s.Fault == Drop && (s.For != 0 || s.Until != "") {
		bad("a message that is dropped is gone: leave \"for\" and \"until\" out")
	}
	return errors.Join(errs...)
}
