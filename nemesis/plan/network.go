package plan

import (
	"errors"
	"fmt"
	"time"

	"fenceproof/checker/contract"
)

// Faults of links. Each hits all connections of its links, those that are open and those that are opened meanwhile.
const (
	// Cut loses whatever is sent, and nobody is told.
	Cut Fault = "cut"
	// Hold keeps back whatever is sent and delivers it when the step ends, also when its sender has gone by then.
	Hold Fault = "hold"
	// Slow has everything take its time.
	Slow Fault = "slow"
	// Reset breaks connections when something is sent on them, which is lost.
	Reset Fault = "reset"
)

// OnLink tells whether f is a fault of links, and its target one of Route.
func (f Fault) OnLink() bool { return f == Cut || f == Hold || f == Slow || f == Reset }

// Network says how a fault of links goes about it.
type Network struct {
	// Direction is the half of the link that is hit: what the client sends, what the server answers, or both, which is what
	// leaving it out means.
	Direction Direction `json:"direction,omitempty"`
	// Latency is how long everything takes longer, give or take Jitter; Slow needs one. Both are of whole milliseconds.
	Latency Duration `json:"latency,omitempty"`
	Jitter  Duration `json:"jitter,omitempty"`
	// KBPerSecond, where not 0, is how much passes besides; of Slow, too.
	KBPerSecond int `json:"kbPerSecond,omitempty"`
}

// Direction is a half of a link, or both.
type Direction string

// The directions.
const (
	OfRequests Direction = "request"
	OfAnswers  Direction = "answer"
	BothWays   Direction = "both"
)

// Limits of a slow link. Below the latency's nobody could tell it from a busy machine.
const (
	MinLatency = 50 * time.Millisecond
	MaxLatency = 10 * time.Second
)

// Direction is the direction of a fault of links.
func (s Step) Direction() Direction {
	if s.Network == nil || s.Network.Direction == "" {
		return BothWays
	}
	return s.Network.Direction
}

// validateNetwork says what is wrong with the parts of a step that only faults of links have.
func (s Step) validateNetwork(p Plan) error {
	if !s.Fault.OnLink() {
		if s.Network != nil {
			return fmt.Errorf("\"network\" belongs to %s, %s, %s and %s, not to %s", Cut, Hold, Slow, Reset, s.Fault)
		}
		return nil
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	r, err := s.Target.Route()
	switch {
	case err != nil:
		errs = append(errs, err)
	case r.names(Holder) && r.From != contract.Process(Holder):
		bad("nobody opens links to the %s: it stands before the arrow", Holder)
	case len(p.Hops(r)) == 0:
		errs = append(errs, known("link", r.Target(), p.routes()))
	case r.names(Holder) && s.On == "":
		bad("the holder's link needs an event \"on\" that says whose")
	}
	if s.On == "" && (s.Until != "" || s.Delay != 0) {
		bad("a step without \"on\" knows neither \"until\" nor \"delay\"")
	}
	if err := known("direction", s.Direction(), []Direction{OfRequests, OfAnswers, BothWays}); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.validateSlowness()...)...)
}

func (s Step) validateSlowness() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var n Network
	if s.Network != nil {
		n = *s.Network
	}
	latency, jitter := time.Duration(n.Latency), time.Duration(n.Jitter)
	switch {
	case s.Fault != Slow && (latency != 0 || jitter != 0 || n.KBPerSecond != 0):
		bad("latency, jitter and kbPerSecond are for %s", Slow)
	case s.Fault != Slow:
	case latency < MinLatency || latency > MaxLatency:
		bad("latency is %s; %s to %s", latency, MinLatency, MaxLatency)
	case jitter < 0 || jitter > latency/2:
		bad("jitter is %s; 0 to half of the latency (%s)", jitter, latency)
	case latency%time.Millisecond != 0 || jitter%time.Millisecond != 0:
		bad("latency is %s and jitter %s; both are of whole milliseconds", latency, jitter)
	case n.KBPerSecond < 0:
		bad("kbPerSecond is %d; 0 for no limit, or more", n.KBPerSecond)
	}
	return errs
}

// onRail tells whether s hits the link over which transfers go to the rail.
func (s Step) onRail(p Plan) bool {
	for _, t := range p.hits(s) {
		if onRailLink(t) {
			return s.Fault.OnLink()
		}
	}
	return false
}

// passesLate is how much later a message arrives than it was sent, at most, where s makes its link slow; a held one arrives
// when the step ends.
func (s Step) passesLate() time.Duration {
	if s.Fault == Slow && s.Network != nil && s.Network.KBPerSecond == 0 {
		return time.Duration(s.Network.Latency + s.Network.Jitter)
	}
	return time.Duration(s.For)
}
