package invariant

import (
	"fmt"
	"strconv"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// world is a payout system in memory that writes the history that its witnesses would have recorded. It keeps the rules
// of the contract, but for the two fencing switches; stories that need another fault write the rows themselves.
type world struct {
	badBooks
	paymentOff, railOff bool
	etcd                bool // the lock's store is etcd: no times in its rows, no renewals in its log

	clock     int64
	calls     int64
	xid       uint32
	nextToken int64
	events    []history.Event // in the order in which things happened

	accounts map[string]*worldAccount
	payouts  map[string]*worldPayout
	grants   map[string]*worldGrant
	sessions map[string]bool // by session and epoch
	stored   map[string]answer
	attempts map[string]*attempt
	money    int
}

type worldAccount struct {
	id                   string
	balance, fence, mark int64
}

// What is wrong with a post: nothing is booked, the legs are swapped, another account than clearing is paid.
type badBooks struct {
	bookless, swapped bool
	payee             string
}

type worldPayout struct {
	id, account string
	amount      int64
	state       contract.State
	token       int64
	by          string
	attempts    int64
	posted      bool
	postedFence int64
}

type worldGrant struct {
	owner, session    string
	token             int64
	acquired, expires int64
}

// worldLease is how long a grant lives without a renewal, worldSession a session.
const (
	worldLease   = int64(time.Second)
	worldSession = int64(300 * time.Hour)
)

type attempt struct {
	id, payout string
	token      int64
	outcome    contract.Outcome
	moved      bool
}

type answer struct {
	status  int
	code    contract.Code
	highest int64
	res     string
	outcome contract.Outcome
}

// request is a call on its way.
type request struct {
	history.Event
	body     string
	executed bool
	intent   *attempt // R1: recorded and to be forwarded
	answer   answer
	reports  contract.Outcome // P7
}

func newWorld() *world {
	return &world{
		nextToken: 40,
		accounts:  map[string]*worldAccount{}, payouts: map[string]*worldPayout{}, grants: map[string]*worldGrant{}, sessions: map[string]bool{},
		stored: map[string]answer{}, attempts: map[string]*attempt{},
	}
}

func (w *world) record(e history.Event) history.Event {
	w.clock += 1000
	e.I, e.T = int64(len(w.events)+1), w.clock
	w.events = append(w.events, e)
	return e
}

// stamp is a time as PostgreSQL writes it.
func stamp(at int64) string {
	return time.Unix(1767225600, at).UTC().Format("2006-01-02 15:04:05.999999-07")
}

// micros is a time as a commit bears it.
func micros(at int64) int64 { return time.Unix(1767225600, at).UnixMicro() }

func (w *world) commit(changes ...history.Change) {
	w.xid++
	w.record(history.Event{W: history.PayDB, Type: contract.OK, Proc: contract.PayDB, Op: history.OpCommit, XID: w.xid, LSN: fmt.Sprintf("0/%X", w.clock), Committed: micros(w.clock), Changes: changes})
}

func (w *world) commitLock(epoch int, changes ...history.Change) {
	w.xid++
	e := history.Event{W: history.LockDB, Type: contract.OK, Proc: contract.LockDB, Op: history.OpCommit, XID: w.xid, Epoch: epoch, Committed: micros(w.clock), Changes: changes}
	if w.etcd {
		e.Proc, e.XID, e.Committed, e.LSN = "etcd", 0, 0, itoa(w.clock)
	}
	w.record(e)
}

// watermarks: both databases' witnesses have recorded all that happened up to now.
func (w *world) watermarks() {
	covers := w.clock
	for _, d := range []history.Witness{history.PayDB, history.LockDB} {
		w.record(history.Event{W: d, Type: contract.Info, Op: history.OpWatermark, Covers: covers})
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

type row = map[string]string

func (w *world) accountRow(a *worldAccount) row {
	return row{"account_id": a.id, "currency": "EUR", "balance_minor": itoa(a.balance), "fence": itoa(a.fence), "updated_at": itoa(w.clock)}
}

func (w *world) payoutRow(p *worldPayout) row {
	r := row{"payout_id": p.id, "account_id": p.account, "amount_minor": itoa(p.amount), "currency": "EUR", "state": string(p.state),
		"idempotency_key": "payout-" + p.id, "attempt_count": itoa(p.attempts), "updated_at": itoa(w.clock)}
	if p.token > 0 {
		r["claimed_by"], r["claim_token"] = p.by, itoa(p.token)
	}
	return r
}

// openAccount and order are what the workload inserts.
func (w *world) openAccount(id string, balance int64) {
	a := &worldAccount{id: id, balance: balance}
	w.accounts[id] = a
	w.commit(history.Change{Table: "account", Kind: history.Insert, New: w.accountRow(a)})
}

func (w *world) order(id, account string, amount int64) {
	p := &worldPayout{id: id, account: account, amount: amount, state: contract.Pending}
	w.payouts[id] = p
	w.commit(history.Change{Table: "payout", Kind: history.Insert, New: w.payoutRow(p)})
}

// acquire lets proc take the account's lock, whoever held it before, and gives the token.
func (w *world) acquire(proc, account string) int64 {
	key := keyPrefix + account
	call := w.send(history.Event{Op: contract.OpAcquire, Proc: contract.Process(proc), Key: key, Session: "session-" + proc})
	token := w.nextToken
	w.nextToken += 2
	w.grant(0, proc, account, token)
	w.answerAcquire(call, token)
	return token
}

// grant writes the grant's row: over an expired one, or anew. Where another session still holds the key, its lease runs
// out first.
func (w *world) grant(epoch int, proc, account string, token int64) {
	g := &worldGrant{owner: proc, session: "session-" + proc, token: token}
	w.openSession(epoch, g)
	old := w.grants[account]
	if old != nil && old.session != g.session {
		w.clock = max(w.clock, old.expires)
		if w.etcd {
			w.free(account) // etcd takes the key away itself
			old = nil
		}
	}
	g.acquired, g.expires = w.clock, w.clock+worldLease
	c := history.Change{Table: "lock_entry", Kind: history.Insert, New: w.grantRow(account, g)}
	if old != nil {
		c.Kind, c.Old = history.Update, w.grantRow(account, old)
	}
	w.grants[account] = g
	w.commitLock(epoch, c)
}

func (w *world) openSession(epoch int, g *worldGrant) {
	if id := fmt.Sprint(g.session, " ", epoch); !w.sessions[id] {
		w.sessions[id] = true
		w.commitLock(epoch, history.Change{Table: "lock_session", Kind: history.Insert, New: w.sessionRow(g, w.clock, w.clock+worldSession)})
	}
}

func (w *world) sessionRow(g *worldGrant, created, expires int64) row {
	if w.etcd {
		return row{"session_id": g.session, "owner_id": g.owner, "ttl_ms": itoa(worldSession / 1e6)}
	}
	return row{"session_id": g.session, "owner_id": g.owner, "created_at": stamp(created), "expires_at": stamp(expires), "ttl_ms": itoa(worldSession / 1e6)}
}

func (w *world) grantRow(account string, g *worldGrant) row {
	if w.etcd {
		return row{"lock_key": keyPrefix + account, "owner_id": g.owner, "session_id": g.session, "fencing_token": itoa(g.token), "ttl_ms": itoa(worldLease / 1e6), "lease": "7"}
	}
	return row{"lock_key": keyPrefix + account, "owner_id": g.owner, "session_id": g.session, "fencing_token": itoa(g.token),
		"acquired_at": stamp(g.acquired), "expires_at": stamp(g.expires), "ttl_ms": itoa(worldLease / 1e6)}
}

// renew extends the account's grant, from now on.
func (w *world) renew(account string) {
	g := w.grants[account]
	old := w.grantRow(account, g)
	g.expires = w.clock + worldLease
	if w.etcd {
		return // its log shows nothing of that
	}
	w.commitLock(0, history.Change{Table: "lock_entry", Kind: history.Update, Old: old, New: w.grantRow(account, g)})
}

func (w *world) answerAcquire(r *request, token int64) {
	r.Granted = token
	r.answer = answer{status: 200}
	w.reply(r)
}

// release lets the holder give the account's lock back.
func (w *world) release(account string) {
	g := w.grants[account]
	if g == nil {
		return
	}
	r := w.send(history.Event{Op: contract.OpRelease, Proc: contract.Process(g.owner), Key: keyPrefix + account, Token: g.token, Session: g.session})
	w.free(account)
	r.answer = answer{status: 204}
	w.reply(r)
}

// free takes the account's grant away, and nothing shows that anybody asked for that.
func (w *world) free(account string) {
	g := w.grants[account]
	delete(w.grants, account)
	w.commitLock(0, history.Change{Table: "lock_entry", Kind: history.Delete, Old: w.grantRow(account, g)})
}

// send records a request as received and forwarded.
func (w *world) send(e history.Event) *request {
	w.calls++
	e.W, e.Type, e.Call, e.Stage = history.Wiretap, contract.Invoke, w.calls, history.Received
	w.record(e)
	e.Stage = history.Forwarded
	w.record(e)
	return &request{Event: e, body: string(e.Op) + e.Req}
}

// reply records the answer.
func (w *world) reply(r *request) {
	e := r.Event
	e.Stage, e.Status, e.Code, e.Highest, e.Res, e.Req = history.Answered, r.answer.status, r.answer.code, r.answer.highest, r.answer.res, ""
	e.Type, e.Outcome = contract.Completion(e.Op, e.Status, e.Code)
	if e.Op == contract.OpOutcome {
		e.Outcome = r.reports
	}
	w.record(e)
	e.Stage, e.Res = history.Delivered, ""
	w.record(e)
}

// loseAnswer records that no answer came.
func (w *world) loseAnswer(r *request) {
	r.answer = answer{}
	w.reply(r)
}

// tearAnswer records that a part of an answer came, and went on to the client.
func (w *world) tearAnswer(r *request) {
	r.answer = answer{res: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"fencingToken\":60"}
	w.reply(r)
}

// ask sends a fenced request without its being carried out.
func (w *world) ask(proc string, op contract.Op, payout string, token int64) *request {
	e := history.Event{Op: op, Proc: contract.Process(proc), Owner: proc, Payout: payout, Token: token, Link: proc + "→payment-resource"}
	if op == contract.OpSubmit {
		e.Account, e.Link = w.payouts[payout].account, proc+"→rail-proxy"
	}
	return w.send(e)
}

// do sends a fenced request, carries it out and answers it.
func (w *world) do(proc string, op contract.Op, payout string, token int64) answer {
	return w.complete(w.ask(proc, op, payout, token))
}

func (w *world) complete(r *request) answer {
	w.execute(r)
	w.reply(r)
	return r.answer
}

func (w *world) execute(r *request) {
	if r.executed {
		return
	}
	r.executed = true
	if r.Op == contract.OpSubmit {
		w.submitIntent(r)
		w.forwardToRail(r, contract.OutcomeAcked, true)
		return
	}
	r.answer = w.payment(r)
}

// pay brings a payout from PENDING to POSTED under one grant.
func (w *world) pay(proc, payout string) int64 {
	token := w.acquire(proc, w.payouts[payout].account)
	for _, op := range []contract.Op{contract.OpClaim, contract.OpSubmitted, contract.OpSubmit, contract.OpOutcome, contract.OpPost} {
		if a := w.do(proc, op, payout, token); a.status != 200 {
			panic(fmt.Sprintf("%s of %s was answered %d %s", op, payout, a.status, a.code))
		}
	}
	w.release(w.payouts[payout].account)
	return token
}
