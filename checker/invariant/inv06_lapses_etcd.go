package invariant

import (
	"fmt"
	"math"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// hear takes what the wiretap says of grants and sessions.
func (f *etcdLeases) hear(e *history.Event) {
	switch {
	case e.Op == contract.OpRelease && e.Stage == history.Forwarded:
		if l := f.key(e.Key).lifeOf(e.Token); l.released == 0 {
			l.released = e.T
		}
	case e.Op == contract.OpAcquire && e.Stage == history.Forwarded:
		f.key(e.Key).ask(e)
	case e.Op == contract.OpHeartbeat && e.Stage == history.Forwarded:
		f.beats[e.Call] = sending{e.I, e.T}
	case e.Op == contract.OpHeartbeat && e.Stage == history.Answered:
		sent, there := f.beats[e.Call]
		delete(f.beats, e.Call)
		if there && isAnswer(e, contract.OpHeartbeat) {
			f.beat(e, sent)
		}
	case f.book.call == nil || f.book.call.sent == nil:
	case e.Op == contract.OpAcquire && e.Stage == history.Answered:
		f.key(e.Key).answer(e)
		if isAnswer(e, contract.OpAcquire) && e.Granted > 0 {
			f.lived(e, e.Granted, f.book.call.sent)
		}
	case isAnswer(e, contract.OpRenew):
		f.renewed++
		f.lived(e, e.Token, f.book.call.sent)
	}
	f.passed = max(f.passed, e.T)
	f.settle()
}

// lived takes the answer to an acquire or a renewal that succeeded: the grant lived when it was forwarded, or later, and
// its lease began anew then. Answers come late, and the end of the grant may have been judged without them.
func (f *etcdLeases) lived(e *history.Event, token int64, sent *history.Event) {
	k := f.key(e.Key)
	l := k.lifeOf(token)
	if l.sign == nil || sent.T > l.sign.T {
		l.sign = sent
	}
	x := k.ended(token)
	if e.Op == contract.OpAcquire {
		l.granted = sent
	} else {
		if l.renewal == nil || sent.T > l.renewal.sent.T {
			l.renewal = &exchange{sent, f.book.keep(e)}
		}
		if x != nil && f.revived(x, l.renewal) {
			return
		}
	}
	switch {
	case x == nil || x.ttl <= 0 || slices.Contains(f.early, x) || x.cause != causeNone && x.cause != causeLapse:
	case x.event.T < l.atLeast(x.ttl):
		f.retract(x)
		f.tooEarly(x, l, f.book.keep(e))
	case x.cause == causeNone:
		f.ranOut(x, causeLapse)
	}
}

// revived reports a renewal that succeeded although it was forwarded after the end of its grant had been recorded.
func (f *etcdLeases) revived(x *etcdEnd, r *exchange) bool {
	if r.sent.T <= x.event.T || x.told {
		return false
	}
	f.retract(x)
	x.cause, x.told = causeReported, true
	f.checked++
	f.report(fmt.Sprintf("%s renewed key %s with token %d %s after the grant had ended", r.sent.Proc, x.key, x.token, since(x.event.T, r.sent.T)),
		want{key: x.key, tokens: [2]int64{x.token}}, x.etcdGrant.event, x.event, r.sent, r.answer)
	return true
}

// retract takes back that x was counted as lapsed.
func (f *etcdLeases) retract(x *etcdEnd) {
	if x.cause == causeLapse {
		f.lapsed--
		if x.counted {
			f.takeovers--
		}
	}
}

// beat: a session that has ended does not beat any more.
func (f *etcdLeases) beat(e *history.Event, sent sending) {
	if end := f.dead.events[e.Session]; end != nil && end.T < sent.t {
		f.checked++
		f.report(fmt.Sprintf("%s's session %s beat %s after it had ended", e.Proc, e.Session, since(end.T, sent.t)), want{}, end, sentAs(e, sent), f.book.keep(e))
	}
}

// settle concludes about the ends that the wiretap has passed: every release that can have been their cause has been
// recorded.
func (f *etcdLeases) settle() {
	for len(f.early) > 0 && f.early[0].event.T < f.passed {
		x := f.early[0]
		f.early = slices.Delete(f.early, 0, 1)
		if x.cause == causeNone {
			f.conclude(x)
		}
	}
}

func (f *etcdLeases) conclude(x *etcdEnd) {
	k := f.keys[x.key]
	l := k.life(x.token)
	switch {
	case x.reentry:
		f.reentered(k, l, x)
	case l != nil && l.released != 0 && l.released <= x.event.T:
		x.cause = causeRelease
		f.checked++
	case f.open || f.book.lost[history.Wiretap] || l == nil && x.token <= k.forgotten || x.ttl <= 0:
		x.cause = causeReported
		f.unresolved++
	case x.carried && (l == nil || l.sign == nil):
		f.unresolved++ // its lease began anew when etcd was started again, and nobody saw when
	case l == nil || l.sign == nil:
		f.checked++ // the server may take a grant back that nobody was told of
	case x.event.T >= l.atLeast(x.ttl):
		f.checked++
		f.ranOut(x, causeLapse)
	default:
		f.checked++
		f.tooEarly(x, l, nil)
	}
}

// reentered judges a grant that ended because its session was granted the key again: that takes another acquire.
func (f *etcdLeases) reentered(k *etcdKey, l *life, x *etcdEnd) {
	x.cause = causeReentry
	if x.carried && (l == nil || l.granted == nil) {
		f.unresolved++ // who was granted it, and when, was said in another epoch
		return
	}
	f.checked++
	if f.open || f.book.lost[history.Wiretap] || l == nil || l.granted == nil || k.mayHaveAsked(l.granted, x) {
		return
	}
	x.cause, x.told = causeReported, true
	f.report(fmt.Sprintf("%s's grant of key %s with token %d ended in a new grant to its own session, which nobody had asked for", x.owner, x.key, x.token),
		want{key: x.key, tokens: [2]int64{x.token}}, l.granted, x.etcdGrant.event, x.event)
}

// ask is an acquire of a key, from its forwarding on.
type ask struct {
	call    int64
	session string
	sent    int64
	over    int64 // T of its definite answer; 0: it may still be carried out
}

// maxAsks bounds the acquires of a key that are remembered.
const maxAsks = 64

func (k *etcdKey) ask(e *history.Event) {
	if len(k.asks) == maxAsks {
		k.unasked = k.asks[0].sent
		k.asks = slices.Delete(k.asks, 0, 1)
	}
	k.asks = append(k.asks, ask{call: e.Call, session: e.Session, sent: e.T})
}

func (k *etcdKey) answer(e *history.Event) {
	for i := range k.asks {
		if k.asks[i].call == e.Call && e.Type != contract.Info {
			k.asks[i].over = e.T
		}
	}
}

// mayHaveAsked tells whether another acquire than the one that was granted x can have ended it: it had been forwarded by
// then, and had not been answered for good before x was asked for.
func (k *etcdKey) mayHaveAsked(granted *history.Event, x *etcdEnd) bool {
	return k.unasked >= granted.T || slices.ContainsFunc(k.asks, func(a ask) bool {
		return a.call != granted.Call && (a.session == x.session || a.session == "") && a.sent <= x.event.T && (a.over == 0 || a.over > granted.T)
	})
}

// tooEarly reports an end that no lease running out can explain.
func (f *etcdLeases) tooEarly(x *etcdEnd, l *life, answer *history.Event) {
	x.cause, x.told = causeReported, true
	f.report(fmt.Sprintf("%s's grant of key %s with token %d ended %s after a request that gave it %s at least, without a release under its token, a revoke or its session's end",
		x.owner, x.key, x.token, since(l.sign.T, x.event.T), since(0, x.ttl)), want{key: x.key, tokens: [2]int64{x.token}}, x.etcdGrant.event, l.sign, x.event, answer)
}

// Finish: what nobody has asked for by now, nobody asked for, if the wiretap is whole.
func (f *etcdLeases) Finish(whole func(history.Witness) bool) {
	f.open = !whole(history.Wiretap)
	f.passed = math.MaxInt64
	f.settle()
}
