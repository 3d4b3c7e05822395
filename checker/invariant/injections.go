package invariant

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// injections counts what nemeses did that break links or revoke grants: what a run of theirs must have met to say anything
// about them. The load alone contends, lets leases run out and has an operator of its own, so what it met proves nothing here.
// That a link was broken, the nemesis' word is taken for; that a grant was revoked, the wiretap's as well.
type injections struct {
	cut, held, slowed, reset int64 // links, each time that one was seen to be so
	revoked                  int64 // grants, of which the nemesis' operator was told that they had been revoked

	told map[string]int64 // by key, the token of which the operator was told so last, until the nemesis says it as well
}

func newInjections() injections { return injections{told: map[string]int64{}} }

// hear takes what the nemesis says.
func (i *injections) hear(e *history.Event) {
	if e.Phase != "seen" {
		return
	}
	switch e.Op {
	case "cut":
		i.cut++
	case "hold":
		i.held++
	case "slow":
		i.slowed++
	case "reset":
		i.reset++
	case contract.OpRevoke:
		if token, there := i.told[e.Key]; there && token == e.Token {
			i.revoked++
			delete(i.told, e.Key)
		}
	}
}

// call takes what the wiretap says. The operator of the lock workload is not the nemesis'.
func (i *injections) call(e *history.Event) {
	if e.Op != contract.OpRevoke || e.Proc != contract.Operator || e.Stage != history.Answered || e.Type != contract.OK {
		return
	}
	if r := readRevocation(e); r.NewTokenFloor > 0 {
		i.told[e.Key] = r.RevokedToken
	}
}

// ofGrants is the count of what was done to grants, late those of what kept messages from arriving in time, and again that of
// what has them sent anew.
func (i *injections) ofGrants() map[string]int64 {
	return map[string]int64{"revokes_injected": i.revoked}
}

func (i *injections) late() map[string]int64 {
	return map[string]int64{"links_cut": i.cut, "links_held": i.held, "links_slowed": i.slowed}
}

func (i *injections) again() map[string]int64 { return map[string]int64{"links_reset": i.reset} }
