package reports

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

const ms = int64(time.Millisecond)

// world makes histories as a run under the pause nemesis makes them: the same events in the same shapes and the same
// order, by a seed. Only the times are invented.
type world struct {
	rng      *rand.Rand
	events   []*history.Event
	token    int64
	calls    int64
	xid      uint32
	windows  int
	fence    map[string]int64
	mark     map[string]int64
	balance  map[string]int64
	railOff  bool
	attempts map[string]bool
	last     int64
}

func newWorld(seed uint64, railOff bool) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 7)), token: 40, railOff: railOff, fence: map[string]int64{}, mark: map[string]int64{}, balance: map[string]int64{}, attempts: map[string]bool{}}
}

func (w *world) id() string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", w.rng.Uint32(), w.rng.Uint32()&0xffff, w.rng.Uint32()&0xfff, w.rng.Uint32()&0xfff, w.rng.Uint64()&0xffffffffffff)
}

func (w *world) add(t int64, witness history.Witness, e history.Event) *history.Event {
	e.T, e.W = t, witness
	w.last = max(w.last, t)
	w.events = append(w.events, &e)
	return &e
}

// finish puts the events in order of time and numbers them.
func (w *world) finish() []history.Event {
	sort.SliceStable(w.events, func(a, b int) bool { return w.events[a].T < w.events[b].T })
	out := make([]history.Event, len(w.events))
	for i, e := range w.events {
		e.I = int64(i + 1)
		out[i] = *e
	}
	return out
}

// request is a call with its answer, as the wiretap records it.
type request struct {
	from, to             contract.Process
	op                   contract.Op
	payout, account, key string
	token                int64
	req, res             string
	status               int
	code                 contract.Code
	outcome              contract.Outcome
	granted, highest     int64
}

func (w *world) call(t, took int64, r request) (answered *history.Event) {
	w.calls++
	base := history.Event{Type: contract.Invoke, Proc: r.from, Op: r.op, Stage: history.Received, Call: w.calls, Link: contract.Link{From: r.from, To: r.to}.String(),
		Key: r.key, Payout: r.payout, Account: r.account, Owner: string(r.from), Token: r.token}
	e := base
	e.Req = r.req
	w.add(t, history.Wiretap, e)
	e = base
	e.Stage = history.Forwarded
	w.add(t+30_000, history.Wiretap, e)
	e = base
	e.Type, _ = contract.Completion(r.op, r.status, r.code)
	e.Stage, e.Status, e.Code, e.Outcome, e.Granted, e.Highest, e.Res = history.Answered, r.status, r.code, r.outcome, r.granted, r.highest, r.res
	answered = w.add(t+took, history.Wiretap, e)
	e.Stage, e.Res = history.Delivered, ""
	w.add(t+took+40_000, history.Wiretap, e)
	return answered
}

func (w *world) commit(t int64, db history.Witness, changes ...history.Change) *history.Event {
	w.xid++
	return w.add(t, db, history.Event{Type: contract.Info, Proc: contract.Process(db), Op: history.OpCommit, XID: w.xid, LSN: fmt.Sprintf("0/%X", 0x1500000+int(w.xid)*160), Changes: changes})
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

// acquire grants account's key to e and returns the token.
func (w *world) acquire(t int64, e contract.Process, account string, over bool) int64 {
	w.token += 1 + int64(w.rng.IntN(2))
	if over {
		w.token++
	}
	tok, key := w.token, "payout:"+account
	row := map[string]string{"lock_key": key, "owner_id": string(e), "session_id": "5e551011-0000-4000-8000-000000000001", "fencing_token": num(tok)}
	w.commit(t+2*ms, history.LockDB, history.Change{Table: "lock_entry", Kind: history.Insert, New: row})
	w.call(t, 3*ms, request{from: e, to: contract.LockServer, op: contract.OpAcquire, key: key, status: 200, granted: tok,
		req: `{"sessionId":"5e551011-0000-4000-8000-000000000001","ttlMillis":1000,"waitMillis":0}`,
		res: fmt.Sprintf(`{"key":%q,"ownerId":%q,"fencingToken":%d}`, key, e, tok)})
	return tok
}

func (w *world) release(t int64, e contract.Process, account string, tok int64, stale bool) {
	r := request{from: e, to: contract.LockServer, op: contract.OpRelease, key: "payout:" + account, token: tok, status: 204}
	if stale {
		r.status, r.code = 409, contract.LockLost
	} else {
		w.commit(t+ms, history.LockDB, history.Change{Table: "lock_entry", Kind: history.Delete,
			Old: map[string]string{"lock_key": r.key, "owner_id": string(e), "fencing_token": num(tok)}})
	}
	w.call(t, 2*ms, r)
}

// job is one payout on its way.
type job struct {
	payout, account string
	amount          int64
	state           contract.State
	claim           int64
	by              contract.Process
}

func (j *job) row() map[string]string {
	r := map[string]string{"payout_id": j.payout, "account_id": j.account, "amount_minor": num(j.amount), "currency": "EUR", "state": string(j.state), "idempotency_key": "payout-" + j.payout}
	if j.claim > 0 {
		r["claim_token"], r["claimed_by"] = num(j.claim), string(j.by)
	}
	return r
}

func (j *job) become(s contract.State) history.Change {
	old := j.row()
	j.state = s
	return history.Change{Table: "payout", Kind: history.Update, Old: old, New: j.row()}
}

func (w *world) accountRow(account string) map[string]string {
	return map[string]string{"account_id": account, "currency": "EUR", "fence": num(w.fence[account]), "balance_minor": num(w.balance[account])}
}

func (w *world) accountChange(account string, fence, balance int64) history.Change {
	old := w.accountRow(account)
	w.fence[account], w.balance[account] = fence, balance
	return history.Change{Table: "account", Kind: history.Update, Old: old, New: w.accountRow(account)}
}

func (w *world) claim(t int64, e contract.Process, j *job, tok int64) {
	old := j.row()
	j.claim, j.by = tok, e
	if j.state == contract.Pending {
		j.state = contract.Claimed
	}
	w.commit(t+6*ms, history.PayDB, w.accountChange(j.account, tok-1, w.balance[j.account]),
		history.Change{Table: "payout", Kind: history.Update, Old: old, New: j.row()})
	w.call(t, 4*ms, request{from: e, to: contract.PaymentResource, op: contract.OpClaim, payout: j.payout, token: tok, status: 200,
		req: `{"expectedState":"PENDING"}`, res: fmt.Sprintf(`{"payoutId":%q,"state":%q,"claimToken":%d}`, j.payout, j.state, tok)})
}

// write is a step at payment-resource; a token at or below the fence is refused.
func (w *world) write(t int64, e contract.Process, j *job, op contract.Op, tok int64) bool {
	r := request{from: e, to: contract.PaymentResource, op: op, payout: j.payout, token: tok, status: 200, req: `{}`}
	if op == contract.OpOutcome {
		r.outcome = contract.OutcomeAcked
	}
	if tok <= w.fence[j.account] {
		r.status, r.code, r.highest = 409, contract.FencedOut, w.fence[j.account]
		r.res = fmt.Sprintf(`{"code":"FENCED_OUT","details":{"presentedToken":%d,"highestToken":%d,"resourceType":"account"}}`, tok, r.highest)
		w.call(t, 3*ms, r)
		return false
	}
	switch op {
	case contract.OpSubmitted:
		w.commit(t+6*ms, history.PayDB, j.become(contract.RailSubmitted))
	case contract.OpOutcome:
		w.commit(t+6*ms, history.PayDB, j.become(contract.RailAcked))
	case contract.OpPost:
		leg := func(account, direction string) history.Change {
			return history.Change{Table: "ledger_entry", Kind: history.Insert, New: map[string]string{"entry_id": w.id(), "payout_id": j.payout, "account_id": account, "direction": direction, "amount_minor": num(j.amount), "fence": num(tok)}}
		}
		w.commit(t+7*ms, history.PayDB, w.accountChange(j.account, tok, w.balance[j.account]-j.amount), leg(j.account, "DEBIT"), leg("c1ea0000-0000-4000-8000-000000000001", "CREDIT"), j.become(contract.Posted))
	}
	w.call(t, 5*ms, r)
	return true
}

// submit goes through the rail proxy; a token at or below the mark is refused, unless the rail's fencing is off.
func (w *world) submit(t int64, e contract.Process, j *job, tok int64) (ok bool, moved *history.Event) {
	sub := map[string]string{"submission_id": w.id(), "payout_id": j.payout, "presented_token": num(tok), "idempotency_key": "payout-" + j.payout}
	r := request{from: e, to: contract.RailProxy, op: contract.OpSubmit, payout: j.payout, account: j.account, token: tok,
		req: fmt.Sprintf(`{"payoutId":%q,"accountId":%q,"amountMinor":%d,"currency":"EUR","beneficiaryRef":"b-%s"}`, j.payout, j.account, j.amount, j.payout[:8])}
	mark := w.mark[j.account]
	if tok <= mark && !w.railOff {
		r.status, r.code, r.outcome, r.highest = 409, contract.FencedOut, contract.OutcomeFenced, mark
		sub["outcome"] = "FENCED"
		w.commit(t+5*ms, history.PayDB, history.Change{Table: "rail_submission", Kind: history.Insert, New: sub})
		w.call(t, 3*ms, r)
		return false, nil
	}
	changes := []history.Change{{Table: "rail_high_water", Kind: history.Update, Old: map[string]string{"account_id": j.account, "highest_token": num(mark)}, New: map[string]string{"account_id": j.account, "highest_token": num(tok)}}}
	if mark == 0 {
		changes[0].Kind, changes[0].Old = history.Insert, nil
	}
	w.mark[j.account] = tok
	first := !w.attempts[j.payout]
	if first {
		w.attempts[j.payout] = true
		changes = append(changes, history.Change{Table: "rail_submission", Kind: history.Insert, New: sub})
	}
	w.commit(t+6*ms, history.PayDB, changes...)
	ref := "R-" + w.id()[:8]
	moved = w.add(t+26*ms, history.Journal, history.Event{Type: contract.Info, Proc: contract.RailStub, Op: history.OpMoney, Payout: j.payout, Amount: j.amount, Currency: "EUR", RailRef: ref})
	w.call(t+4*ms, 21*ms, request{from: contract.RailProxy, to: contract.RailStub, op: contract.OpTransfer, payout: j.payout, status: 200,
		req: fmt.Sprintf(`{"clientRef":%q,"amountMinor":%d,"currency":"EUR"}`, j.payout, j.amount), res: fmt.Sprintf(`{"railReference":%q}`, ref)})
	if first {
		done := map[string]string{}
		for k, v := range sub {
			done[k] = v
		}
		done["outcome"], done["rail_reference"] = "ACKED", ref
		w.commit(t+31*ms, history.PayDB, history.Change{Table: "rail_submission", Kind: history.Update, Old: sub, New: done})
	}
	r.status, r.outcome = 200, contract.OutcomeAcked
	w.call(t, 29*ms, r)
	return true, moved
}

// pause stops e from from to to.
func (w *world) pause(e contract.Process, from, to int64, why string) {
	w.windows++
	for _, p := range []struct {
		t     int64
		phase string
		msg   string
	}{{from - ms, "inject", why}, {from, "seen", ""}, {to, "heal", "successor.accepted"}, {to + ms, "healed", ""}} {
		w.add(p.t, history.Nemesis, history.Event{Type: contract.Info, Proc: "nemesis", Op: "pause", Window: w.windows, Phase: p.phase, Target: string(e), Msg: p.msg})
	}
}

func (w *world) newJob(t int64, account string) *job {
	j := &job{payout: w.id(), account: account, amount: int64(100 + w.rng.IntN(9000)), state: contract.Pending}
	w.commit(t, history.PayDB, history.Change{Table: "payout", Kind: history.Insert, New: j.row()})
	return j
}

// calm works a payout off under tok, from its claim on; it returns when it was posted.
func (w *world) calm(t int64, e contract.Process, j *job, tok int64) int64 {
	w.claim(t, e, j, tok)
	w.write(t+60*ms, e, j, contract.OpSubmitted, tok)
	w.submit(t+120*ms, e, j, tok)
	w.write(t+200*ms, e, j, contract.OpOutcome, tok)
	w.write(t+260*ms, e, j, contract.OpPost, tok)
	return t + 270*ms
}

// late is what a stopped holder did when it came back.
type late struct {
	job      *job
	old, new int64 // tokens
	who      contract.Process
	first    *history.Event // the first money
	second   *history.Event // the second, with the rail's fencing off
}

// takeover stops the holder a before its next write until b's write was accepted at the same fence point.
func (w *world) takeover(t int64, a, b contract.Process, j *job, atRail bool) (late, int64) {
	old := w.acquire(t, a, j.account, false)
	w.claim(t+10*ms, a, j, old)
	stop := t + 39*ms
	if atRail {
		w.write(t+70*ms, a, j, contract.OpSubmitted, old)
		stop = t + 100*ms
	}
	over := stop + 1050*ms
	fresh := w.acquire(over, b, j.account, true)
	w.claim(over+60*ms, b, j, fresh)
	if !atRail {
		w.write(over+120*ms, b, j, contract.OpSubmitted, fresh)
	}
	_, first := w.submit(over+180*ms, b, j, fresh)
	back := over + 215*ms
	w.pause(a, stop, back, fmt.Sprintf("25ms after %s for payout %s under token %d", map[bool]string{true: "submitted.ok", false: "claim.ok"}[atRail], j.payout, old))
	l := late{job: j, old: old, new: fresh, who: a, first: first}
	if atRail {
		_, l.second = w.submit(back+27*ms, a, j, old)
	} else {
		w.write(back+27*ms, a, j, contract.OpSubmitted, old)
	}
	w.release(back+40*ms, a, j.account, old, true)
	w.write(over+270*ms, b, j, contract.OpOutcome, fresh)
	w.write(over+330*ms, b, j, contract.OpPost, fresh)
	w.release(over+345*ms, b, j.account, fresh, false)
	return l, over + 350*ms
}
