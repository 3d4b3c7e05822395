package invariant

import (
	"fmt"
	"slices"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// book is what all folds need to know: which payout belongs to which account, what accounts hold and where their fences
// stand, who sent which call under which token. The Judge enters every event here before the folds see it.
type book struct {
	accounts map[string]*account
	payouts  map[string]*payout
	keys     map[string]*lockKey
	calls    map[int64]*call
	spare    []*call // ended calls, to be used again

	txn   txn      // of the event in hand, when it is a commit of paydb
	grant []grant  // of the event in hand, when it is a commit of lockdb
	call  *call    // of the event in hand, when it is of a call that the book follows
	ended callEnd  // of the event in hand, when it answers that call
	kept  keptOnce // its copy, made once

	epoch   int                        // of the lock store's log
	heard   int64                      // what the wiretap recorded before this T has been delivered, and not more
	begun   int64                      // T of its first event, −1 for the first epoch: a run begins at 0
	begins  []int64                    // the same of every epoch but the first
	begunBy *history.Event             // the fault that began it, nil where none is known
	fault   *history.Event             // the latest since that begins an epoch
	anew    bool                       // the event in hand is the first of its epoch, and no commit of the one before follows
	covers  map[history.Witness]int64  // the latest watermarks
	lost    map[history.Witness]bool   // which witnesses lost their place
	holes   map[history.Witness]string // what shows that a witness's evidence lacks something in the middle

	states     map[contract.State]int64
	refusals   map[string]int64 // FENCED_OUT by resource type
	operations map[contract.Op]int64
	events     int64

	// Danger met: stale requests refused at each fence point. The token that stands there already is no stale one.
	staleRefusedPayment int64
	staleRefusedRail    int64
	kills               kills
	fullDisks           fullDisks
	failovers           failovers
	rewinds             int64 // a lock store that was put back was seen to know of fewer tokens than were answered
	messages            messages
	injections          injections
	clocks              clocks
}

// account is a customer's account or a clearing account.
type account struct {
	id       string
	customer bool // a payout is drawn on it
	known    bool // a row of it was seen
	rebased  bool // it was there before its first row was seen, and what it held then is not known

	opening, balance, entries int64
	fence, mark               int64
	credits                   int64 // how many CREDIT legs stand on it
	creditor                  *payout
	credited                  *history.Event

	// The highest token that each fence point is known to have accepted, by an answer that the wiretap saw.
	payment, rail accepted
	recent        ring // the last writes' answers, as evidence
}

// payout is one payout and what its requests left behind.
type payout struct {
	id       string
	account  *account // nil until its row was seen
	amount   int64
	currency string
	state    contract.State
	token    int64 // claim token
	legs     int64 // Σ legs, signed
	debited  int64 // Σ DEBIT legs on its own account, unsigned
	whole    bool  // seen from its insert on: no legs of it can have come before

	prior     []priorCall // requests that a repetition would be a replay of
	forgotten int64       // the highest token dropped from prior
	authors   [authored]author
	submits   [2]*history.Event // the first answers to its submissions that say it may have been forwarded
}

// lockKey is one key of the lock.
type lockKey struct {
	name   string
	ever   answers
	since  answers // to requests that were sent in the epoch
	epoch  int
	recent ring // the last grants' answers, as evidence
}

// answers are the highest that was answered for a key.
type answers struct {
	granted accepted // to an acquire
	floor   accepted // to a revoke
}

// above is the one of a that a granted token should have exceeded, or come up to, and does not; nil where there is none.
func (a *answers) above(granted int64) *accepted {
	switch {
	case granted <= a.granted.token:
		return &a.granted
	case granted < a.floor.token:
		return &a.floor
	}
	return nil
}

// inEpoch is what was answered for the key to requests of the lock store's present epoch.
func (b *book) inEpoch(k *lockKey) *answers {
	if k.epoch != b.epoch {
		k.epoch, k.since = b.epoch, answers{}
	}
	return &k.since
}

// answer enters what c was answered: place gives where. Whose request was sent in an older epoch may be of that one.
func (b *book) answer(c *call, e *history.Event, token int64, place func(*answers) *accepted) {
	kept := b.keep(e)
	place(&c.key.ever).raise(token, kept, c.sent)
	if !b.spans(c) {
		place(b.inEpoch(c.key)).raise(token, kept, c.sent)
	}
}

// accepted is a token and the event that shows it accepted.
type accepted struct {
	token int64
	event *history.Event
	sent  *history.Event // the request, of a lock key's
}

// raise keeps the higher of two tokens.
func (a *accepted) raise(token int64, e, sent *history.Event) {
	if token > a.token {
		a.token, a.event, a.sent = token, e, sent
	}
}

// forgettable tells whether the answer e may be that of a lock store that had forgotten a at the beginning of an epoch: a had
// been asked for by then, and e came later.
func (b *book) forgettable(a accepted, e *history.Event) bool {
	return a.sent != nil && slices.ContainsFunc(b.begins, func(begun int64) bool { return a.sent.T <= begun && begun < e.T })
}

func newBook() *book {
	return &book{
		begun:    -1,
		accounts: map[string]*account{}, payouts: map[string]*payout{}, keys: map[string]*lockKey{}, calls: map[int64]*call{},
		covers: map[history.Witness]int64{}, lost: map[history.Witness]bool{}, holes: map[history.Witness]string{},
		kills: newKills(), injections: newInjections(), fullDisks: newFullDisks(), clocks: newClocks(), states: map[contract.State]int64{}, refusals: map[string]int64{}, operations: map[contract.Op]int64{},
	}
}

// enter reads e for all folds; leave follows when they have seen it.
func (b *book) enter(e *history.Event) {
	if e.Event != history.Missing {
		b.events++
	}
	b.kept, b.call = keptOnce{}, nil
	if b.anew = e.W == history.LockDB && e.Epoch > b.epoch; b.anew {
		b.epoch, b.begun, b.begunBy, b.fault = e.Epoch, e.T, b.fault, nil
		b.begins = append(b.begins, e.T)
	}
	switch e.Op {
	case history.OpWatermark:
		b.covers[e.W] = max(b.covers[e.W], e.Covers)
		return
	case history.OpLostPlace:
		b.lost[e.W] = true
		return
	}
	switch e.W {
	case history.Nemesis:
		b.kills.hear(e)
		b.fullDisks.hear(e)
		b.failovers.hear(e)
		b.messages.hear(e)
		b.injections.hear(e)
		b.clocks.hear(e)
		b.hearFault(e)
	case history.PayDB:
		if e.Op == history.OpCommit {
			b.readTxn(e)
		}
	case history.LockDB:
		if e.Op == history.OpCommit {
			b.readGrants(e)
		}
	case history.Wiretap:
		b.kills.hear(e)
		b.fullDisks.hear(e)
		b.injections.call(e)
		b.clocks.call(e)
		b.enterCall(e)
	}
}

// hearFault takes the faults that begin an epoch.
func (b *book) hearFault(e *history.Event) {
	switch e.Op {
	case "restore", "restore-unguarded":
		if e.Phase == "seen" {
			b.rewinds++
		}
	case opFailover, opFailoverAsync:
	default:
		return
	}
	if e.Phase == "inject" {
		b.fault = b.keep(e)
	}
}

func (b *book) leave(e *history.Event) {
	if e.W == history.Wiretap && e.Stage == history.Answered {
		b.endCall(e)
	}
}

func (b *book) account(id string) *account {
	a := b.accounts[id]
	if a == nil {
		a = &account{id: id}
		b.accounts[id] = a
	}
	return a
}

func (b *book) payout(id string) *payout {
	p := b.payouts[id]
	if p == nil {
		p = &payout{id: id}
		b.payouts[id] = p
	}
	return p
}

func (b *book) key(name string) *lockKey {
	k := b.keys[name]
	if k == nil {
		k = &lockKey{name: name}
		b.keys[name] = k
	}
	return k
}

// hole notes that w's evidence lacks something, whatever its trailer says; the first sign counts.
func (b *book) hole(w history.Witness, format string, args ...any) {
	b.lost[w] = true
	if b.holes[w] == "" {
		b.holes[w] = fmt.Sprintf(format, args...)
	}
}

// keyPrefix and an account's id make the lock key of the account.
const keyPrefix = "payout:"

// accountOf is the id of the account that a call is about, "" where nobody can tell.
func (b *book) accountOf(e *history.Event) string {
	switch {
	case e.Account != "":
		return e.Account
	case e.Payout != "":
		if p := b.payouts[e.Payout]; p != nil && p.account != nil {
			return p.account.id
		}
	case e.Key != "":
		id, _ := strings.CutPrefix(e.Key, keyPrefix)
		return id
	}
	return ""
}

func (b *book) countState(from, to contract.State) {
	if from != "" {
		b.states[from]--
	}
	b.states[to]++
}
