// Package history is the evidence of a run on disk: one append-only NDJSON file per witness, with one sequence number
// over all of them, a header, and a trailer when the file is complete. docs/history.md describes the format.
package history

import "fenceproof/checker/contract"

// SchemaVersion is the version of the file format. A reader refuses files of a higher version.
const SchemaVersion = 1

// Witness names the source of an event, and the file that holds it: history/<witness>.ndjson.
type Witness string

// The witnesses. Logs and Nemesis explain; they never prove.
const (
	Wiretap Witness = "wiretap" // every HTTP request and answer on every link
	PayDB   Witness = "paydb"   // paydb's committed row changes, in commit order
	LockDB  Witness = "lockdb"  // the lock store's committed changes, in its own order
	Journal Witness = "journal" // the rail's file of money moved
	Nemesis Witness = "nemesis" // fault windows, with the observed effect
	Logs    Witness = "logs"    // events of the services' own logs
	Run     Witness = "run"     // phases and settings of the run itself
)

// Witnesses lists all witnesses in the order of their files.
func Witnesses() []Witness { return []Witness{Wiretap, PayDB, LockDB, Journal, Nemesis, Logs, Run} }

// Stage says how far the wiretap had brought a call when it recorded the event.
type Stage string

// The stages of a call, in order. Received opens the invocation (type invoke), Answered completes it (ok, fail or
// info). Forwarded (invoke) and Delivered (the completion's type; Lost, info, when the client was gone) are marks in
// between: they carry the time, not a second invocation. A call without an answer (Status 0) ends with Answered.
const (
	Received  Stage = "received"  // the request is here, whole
	Forwarded Stage = "forwarded" // its first byte is about to go to the server
	Answered  Stage = "answered"  // the server's answer is here, whole; or no answer will come
	Delivered Stage = "delivered" // the answer's last byte went to the client
	Lost      Stage = "lost"      // the answer could not be delivered: the client was gone
)

// Ops of events that are not HTTP calls.
const (
	OpCommit      contract.Op = "commit"      // paydb, lockdb: one committed transaction, with its Changes
	OpWatermark   contract.Op = "watermark"   // a witness has recorded all that happened before Covers
	OpLostPlace   contract.Op = "lost"        // a witness lost its place; Msg says what and why
	OpElection    contract.Op = "election"    // lockdb on etcd: there was an election, before now; Attrs has the term
	OpMoney       contract.Op = "money"       // journal: the rail moved money
	OpPhase       contract.Op = "phase"       // run: a phase began; Msg names it
	OpInterrupted contract.Op = "interrupted" // run: it was cut short; Msg says by what
	OpAlive       contract.Op = "alive"       // run: the harness runs; a long gap between two says that it stood still
	OpWaits       contract.Op = "waits"       // run: for how long clients were ready to run and no processor was free, since the last such event; Attrs has who, and under AskedFor how long asking took
	OpEnded       contract.Op = "ended"       // run: a process of the system, Proc, ended by itself; Msg says how
	OpFailed      contract.Op = "failed"      // run: the harness itself failed, Msg says how; the run proves nothing
	OpBalance     contract.Op = "balance"     // run: what paydb says of one Account when all is over, in Attrs
	OpAudited     contract.Op = "audited"     // run: so many balances were asked for; Attrs counts them
	OpLog         contract.Op = "log"         // logs: a service logged Event
)

// AskedFor is the attribute of OpWaits that says for how long the harness asked before it recorded the answers.
const AskedFor = "harness"

// Event is one line of a history. Most fields are empty in most events; the comments say who fills them.
type Event struct {
	// I is the place in the one sequence over all witnesses, from 1. Folds consume events in this order.
	I int64 `json:"i"`
	// W is the witness that saw it, and the file that the line stands in.
	W Witness `json:"w"`
	// T is when the harness recorded the event: nanoseconds on its monotonic clock since the run began.
	T    int64            `json:"t"`
	Type contract.Type    `json:"type"`
	Proc contract.Process `json:"proc"` // who acted: the client of a call, a database, a nemesis' target
	Op   contract.Op      `json:"op"`

	// Wiretap: the call, and what its request said. All stages of a call repeat Call, Link, Payout, Account, Key and
	// Token, so that an event can be judged alone. From Answered on they also hold the Session that an open_session
	// opened and the Account that the answer to a claim or get_payout named.
	Stage   Stage  `json:"stage,omitempty"`
	Call    int64  `json:"call,omitempty"`   // unique in a run; joins the stages
	DupOf   int64  `json:"dup_of,omitempty"` // the call that this one deliberately repeats
	Link    string `json:"link,omitempty"`
	Key     string `json:"key,omitempty"`     // lock key
	Payout  string `json:"payout,omitempty"`  // payout id, also the clientRef of a transfer
	Account string `json:"account,omitempty"` // account id, where the request has it
	Owner   string `json:"owner,omitempty"`   // X-Owner-Id
	Session string `json:"session,omitempty"` // session id
	// Token is the fencing token that the request presented (X-Fencing-Token), 0 where it had none.
	Token int64 `json:"token,string,omitempty"`

	// Wiretap, stage answered and later: what the answer said.
	Status  int              `json:"status,omitempty"` // 0: no answer came
	Code    contract.Code    `json:"code,omitempty"`
	Outcome contract.Outcome `json:"outcome,omitempty"` // submit: what became of it; outcome (P7): what it reports
	// Granted is the fencing token in the answer to an acquire or renew.
	Granted int64 `json:"granted,string,omitempty"`
	// Highest is details.highestToken of a FENCED_OUT.
	Highest int64 `json:"highest,string,omitempty"`
	// Req and Res are the bodies as they were, at most BodyLimit bytes of each. Req stands in the received stage,
	// Res in the answered one. Lists (P1, S2) leave Res out. With Status 0, Res is the part of an answer, head and all,
	// that came and went on to the client; empty where none did.
	Req string `json:"req,omitempty"`
	Res string `json:"res,omitempty"`

	// PayDB, LockDB: one committed transaction.
	LSN   string `json:"lsn,omitempty"` // its commit position, as PostgreSQL writes it
	XID   uint32 `json:"xid,omitempty"`
	Epoch int    `json:"epoch,omitempty"` // from 0; a planned restore or failover begins the next
	// Committed is when the transaction was committed, by the database's own clock: microseconds since 1970.
	Committed int64    `json:"committed,omitempty"`
	Changes   []Change `json:"changes,omitempty"`
	Covers    int64    `json:"covers,omitempty"` // OpWatermark: the T that is covered

	// Journal: money moved. Payout is the client reference.
	Amount   int64  `json:"amount,omitempty"` // minor units
	Currency string `json:"currency,omitempty"`
	RailRef  string `json:"rail_ref,omitempty"`

	// Nemesis: a fault window. Phase is inject, seen, heal, healed or failed.
	Window int    `json:"window,omitempty"` // from 1, unique in a run
	Phase  string `json:"phase,omitempty"`
	Target string `json:"target,omitempty"` // the process or link

	// Logs: the service's event name and its attributes; Run and others: a sentence.
	Event string            `json:"event,omitempty"`
	Attrs map[string]string `json:"attrs,omitempty"`
	Msg   string            `json:"msg,omitempty"`
}

// BodyLimit is how much of a request's or answer's body an event keeps, in bytes.
const BodyLimit = 4096

// Kind says what a Change did to its row.
type Kind string

// The kinds of a row change.
const (
	Insert Kind = "insert"
	Update Kind = "update"
	Delete Kind = "delete"
)

// Change is one row change of a committed transaction, in the order in which the transaction made them. Values are
// PostgreSQL's text form; a NULL column is absent from the map.
type Change struct {
	Table string            `json:"table"`
	Kind  Kind              `json:"kind"`
	Old   map[string]string `json:"old,omitempty"` // update, delete: the whole row before
	New   map[string]string `json:"new,omitempty"` // insert, update: the whole row after
}
