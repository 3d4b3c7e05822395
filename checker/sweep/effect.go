package sweep

import (
	"time"

	"github.com/go-json-experiment/json"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// effect names what one request does, as its answer and the log of the store both name it.
type effect struct {
	op    contract.Op
	of    string // session, key or payout
	token int64
	end   int64 // heartbeat, renew: the new expiry in milliseconds
}

// promised is the effect of the request that e answers; zero where it has none. sure: the answer says that it was had.
// logged: the logs of the stores show such effects; what only reads has none that could be missing.
func promised(e *history.Event, onEtcd bool) (x effect, sure, logged bool) {
	logged = !onEtcd || e.Op != contract.OpHeartbeat && e.Op != contract.OpRenew
	done := e.Type == contract.OK
	var answer struct {
		ExpiresAt    time.Time `json:"expiresAt"`
		RevokedToken int64     `json:"revokedToken"`
		Entries      []struct {
			Fence int64 `json:"fence"`
		} `json:"entries"`
	}
	if done && e.Res != "" && json.Unmarshal([]byte(e.Res), &answer) != nil {
		done = false // it does not say what
	}
	switch e.Op {
	case contract.OpOpenSession, contract.OpCloseSession:
		x = effect{op: e.Op, of: e.Session}
	case contract.OpHeartbeat:
		x = effect{op: e.Op, of: e.Session, end: answer.ExpiresAt.UnixMilli()}
	case contract.OpAcquire:
		x = effect{op: e.Op, of: e.Key, token: e.Granted}
	case contract.OpRenew:
		x = effect{op: e.Op, of: e.Key, token: e.Token, end: answer.ExpiresAt.UnixMilli()}
	case contract.OpRelease:
		x = effect{op: e.Op, of: e.Key, token: e.Token}
	case contract.OpRevoke:
		x = effect{op: e.Op, of: e.Key, token: answer.RevokedToken}
	case contract.OpSubmitted, contract.OpOutcome: // their rows bear no token
		x = effect{op: e.Op, of: e.Payout}
	case contract.OpPost:
		x = effect{op: e.Op, of: e.Payout, token: e.Token}
		// A payout that was posted by another token is answered with that one's entries.
		done = done && len(answer.Entries) > 0 && answer.Entries[0].Fence == e.Token
	case contract.OpClaim, contract.OpResolve:
		x = effect{op: e.Op, of: e.Payout, token: e.Token}
	case contract.OpSubmit:
		x = effect{op: e.Op, of: e.Payout, token: e.Token}
		done = done && (e.Outcome == contract.OutcomeAcked || e.Outcome == contract.OutcomeRejected)
	case contract.OpTransfer:
		x = effect{op: e.Op, of: e.Payout}
	default:
		return effect{}, false, logged
	}
	switch unknown := e.Type == contract.Info; {
	case done:
		return x, true, logged
	case unknown && named(x):
		return x, false, logged
	}
	return effect{}, false, logged
}

// named tells whether x can be found without an answer.
func named(x effect) bool {
	switch x.op {
	case contract.OpOpenSession, contract.OpHeartbeat, contract.OpAcquire, contract.OpRenew, contract.OpRevoke:
		return false
	}
	return true
}

// effect takes what a store's log or the journal shows.
func (x *reading) effect(e *history.Event) {
	switch {
	case e.Op == history.OpMoney:
		x.effects[effect{op: contract.OpTransfer, of: e.Payout}]++
	case e.Op == history.OpCommit && e.Msg != "snapshot":
		posted := map[effect]bool{}
		for i := range e.Changes {
			x.change(&e.Changes[i], posted)
		}
		for p := range posted {
			x.effects[p]++
		}
	}
}

func (x *reading) change(c *history.Change, posted map[effect]bool) {
	switch c.Table {
	case "lock_session":
		x.session(c)
	case "lock_entry":
		x.entry(c)
	case "lock_revocation":
		if c.New != nil {
			x.effects[effect{op: contract.OpRevoke, of: c.New["lock_key"], token: history.Int(c.New["prev_token"])}]++
		}
	case "payout":
		x.payout(c)
	case "payout_resolution":
		if c.Kind == history.Insert {
			x.effects[effect{op: contract.OpResolve, of: c.New["payout_id"], token: history.Int(c.New["token"])}]++
		}
	case "ledger_entry": // both legs are one post
		if c.Kind == history.Insert {
			posted[effect{op: contract.OpPost, of: c.New["payout_id"], token: history.Int(c.New["fence"])}] = true
		}
	case "rail_submission":
		if c.Kind == history.Insert && c.New["outcome"] != string(contract.OutcomeFenced) {
			x.effects[effect{op: contract.OpSubmit, of: c.New["payout_id"], token: history.Int(c.New["presented_token"])}]++
		}
	}
}

func (x *reading) session(c *history.Change) {
	switch c.Kind {
	case history.Insert:
		x.effects[effect{op: contract.OpOpenSession, of: c.New["session_id"]}]++
	case history.Update:
		x.effects[effect{op: contract.OpHeartbeat, of: c.New["session_id"], end: millis(c.New["expires_at"])}]++
	case history.Delete:
		x.effects[effect{op: contract.OpCloseSession, of: c.Old["session_id"]}]++
	}
}

func (x *reading) entry(c *history.Change) {
	switch {
	case c.New == nil:
		x.effects[effect{op: contract.OpRelease, of: c.Old["lock_key"], token: history.Int(c.Old["fencing_token"])}]++
	case c.Kind == history.Update && c.Old["fencing_token"] == c.New["fencing_token"]:
		x.effects[effect{op: contract.OpRenew, of: c.New["lock_key"], token: history.Int(c.New["fencing_token"]), end: millis(c.New["expires_at"])}]++
	default:
		x.effects[effect{op: contract.OpAcquire, of: c.New["lock_key"], token: history.Int(c.New["fencing_token"])}]++
	}
}

// payout takes a transition of a payout. Who resolved and who posted stands in other tables.
func (x *reading) payout(c *history.Change) {
	if c.Kind != history.Update {
		return
	}
	from, to := contract.State(c.Old["state"]), contract.State(c.New["state"])
	id := c.New["payout_id"]
	switch {
	case from == contract.RailAmbiguous, to == contract.Posted, to == contract.Abandoned:
	case c.Old["claim_token"] != c.New["claim_token"]:
		x.effects[effect{op: contract.OpClaim, of: id, token: history.Int(c.New["claim_token"])}]++
	case from == contract.Claimed && to == contract.RailSubmitted:
		x.effects[effect{op: contract.OpSubmitted, of: id}]++
	case from == contract.RailSubmitted && to != from:
		x.effects[effect{op: contract.OpOutcome, of: id}]++
	}
}

// millis reads a column of type timestamptz; an answer may write no more of it than whole milliseconds.
func millis(column string) int64 { return history.Micros(column) / 1000 }
