package nemesis

import (
	"encoding/json"
	"slices"
	"sync"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/nemesis/plan"
)

// trigger is the answered call that began a step.
type trigger struct {
	proc   contract.Process
	payout string
	key    string
	token  int64
}

// triggerOf is ev as a trigger. What an acquire was granted is the token that it is about.
func triggerOf(ev *history.Event) trigger {
	return trigger{proc: ev.Proc, payout: ev.Payout, key: ev.Key, token: max(ev.Token, ev.Granted)}
}

// subject is what t is about.
func (t trigger) subject() string {
	if t.payout == "" {
		return "key " + t.key
	}
	return "payout " + t.payout
}

// triggers tells whether ev is the event on: the delivery of an answer, or the forwarding of a post. The state that a
// claim found stands in its answer, which only the answered stage carries; l remembers it until then.
func triggers(on plan.Event, l *listeners, ev *history.Event) bool {
	if on == plan.PostForwarded {
		return ev.W == history.Wiretap && ev.Stage == history.Forwarded && ev.Op == contract.OpPost && ev.Proc.IsExecutor()
	}
	if ev.W != history.Wiretap || ev.Stage != history.Delivered || ev.Type != contract.OK || ev.Status != 200 {
		return false
	}
	switch on {
	case plan.AcquireOK:
		return ev.Op == contract.OpAcquire && (ev.Proc.IsLockClient() || ev.Proc.IsExecutor()) && ev.Granted > 0
	case plan.ClaimOK:
		return ev.Op == contract.OpClaim && l.claimed[ev.Call] == contract.Claimed
	case plan.SubmittedOK:
		return ev.Op == contract.OpSubmitted
	case plan.SubmitOK:
		return ev.Op == contract.OpSubmit
	case plan.OutcomeOK:
		return ev.Op == contract.OpOutcome && ev.Outcome == contract.OutcomeAcked
	}
	return false
}

// ends tells whether ev says that a fence point accepted a token above the trigger's for the same payout, or that somebody
// else was granted the same key.
func ends(until plan.Event, t trigger, ev *history.Event) bool {
	if until == plan.SuccessorGranted {
		return ev.W == history.Wiretap && ev.Stage == history.Answered && ev.Type == contract.OK && ev.Op == contract.OpAcquire &&
			ev.Key == t.key && ev.Proc != t.proc && ev.Granted > t.token
	}
	if ev.W != history.Wiretap || ev.Stage != history.Answered || ev.Payout != t.payout || ev.Token <= t.token {
		return false
	}
	switch until {
	case plan.SuccessorClaimed:
		return ev.Op == contract.OpClaim && ev.Type == contract.OK
	case plan.SuccessorPosted:
		return ev.Op == contract.OpPost && ev.Type == contract.OK
	case plan.SuccessorAtRail:
		// Every outcome but FENCED raised the mark, a lost one included: the mark is raised before anything is forwarded.
		return ev.Op == contract.OpSubmit && ev.Type != contract.Fail && ev.Outcome != contract.OutcomeFenced
	}
	return false
}

// listeners hands each event to whoever waits for one of its kind.
type listeners struct {
	mu      sync.Mutex
	waiting []*listener // in the order in which they began to wait
	// claimed holds the state that an answered claim reported, until the answer was delivered or lost.
	claimed map[int64]contract.State
	granted int64 // the highest token that was answered to an acquire
}

type listener struct {
	heard chan struct{} // closed when match said yes
	match func(*history.Event) bool
	all   *listeners
}

func newListeners() *listeners {
	return &listeners{claimed: map[int64]contract.State{}}
}

// listen waits for the first event that match accepts. match runs under the listeners' lock, in order of events.
func (l *listeners) listen(match func(*history.Event) bool) *listener {
	w := &listener{heard: make(chan struct{}), match: match, all: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, w)
	return w
}

func (w *listener) close() {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.all.drop(w)
}

func (l *listeners) drop(w *listener) {
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// highest is the highest token that was answered to an acquire so far.
func (l *listeners) highest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

func (l *listeners) observe(ev *history.Event) {
	if ev.W != history.Wiretap {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ev.Op == contract.OpClaim && ev.Stage == history.Answered && ev.Status == 200 {
		var answer struct {
			State contract.State `json:"state"`
		}
		if json.Unmarshal([]byte(ev.Res), &answer) == nil {
			l.claimed[ev.Call] = answer.State
		}
	}
	if grants(ev) {
		l.granted = max(l.granted, ev.Granted)
	}
	for _, w := range slices.Clone(l.waiting) {
		if w.match(ev) {
			l.drop(w)
			close(w.heard)
		}
	}
	if ev.Stage == history.Delivered || ev.Stage == history.Lost {
		delete(l.claimed, ev.Call)
	}
}
