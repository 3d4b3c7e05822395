package invariant

import (
	"fmt"
	"math"
	"slices"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// earlyEnd is a grant that ended before its expiry, until the wiretap can tell who asked for that.
type earlyEnd struct {
	key   string
	row   *leaseRow
	event *history.Event
	// excused: its server's clock may have been past its end, and then it is one that nobody has to have asked for.
	excused bool
}

// maxUnheard bounds the grants of a key that were taken back before anybody was told of them.
const maxUnheard = 8

// hear takes what the wiretap says of keys. It records on the harness's own clock, so an event of a later time than a
// commit was recorded says that all that was sent before that commit has been recorded too.
func (f *leases) hear(e *history.Event) {
	switch {
	case e.Op == contract.OpRelease && e.Stage == history.Forwarded:
		f.key(e.Key).asked.add(f.said(e, e.Token), f.epoch)
	case isAnswer(e, contract.OpAcquire):
		k := f.key(e.Key)
		k.answered.add(f.said(e, e.Granted), f.epoch)
		if i := slices.IndexFunc(k.unheard, func(x earlyEnd) bool { return x.row.token == e.Granted }); i >= 0 {
			x := k.unheard[i]
			f.report(fmt.Sprintf("%s was answered token %d for key %s, which had ended before its expiry without a release, a revoke or its session's end", e.Proc, e.Granted, e.Key),
				want{key: e.Key, tokens: [2]int64{e.Granted}}, x.row.event, x.event, f.book.keep(e))
		}
	}
	f.passed = max(f.passed, e.T)
	f.settle()
}

// said is what e, a message of the wiretap, says under token. What waited for paydb is delivered late.
func (f *leases) said(e *history.Event, token int64) saying {
	x := saying{token: token, session: e.Session, epoch: f.epoch, spans: f.book.spans(f.book.call)}
	if e.T <= f.book.begun {
		x.epoch--
	}
	return x
}

// settle concludes about the early ends that the wiretap has passed.
func (f *leases) settle() {
	for len(f.early) > 0 && f.early[0].event.T < f.passed {
		x, before := f.early[0], f.checked
		f.conclude(x)
		if f.checked > before && !x.excused && f.book.clocks.everWrong {
			f.endsJudged++
		}
		f.early = slices.Delete(f.early, 0, 1)
	}
}

func (f *leases) conclude(x earlyEnd) {
	k := f.keys[x.key]
	switch {
	case k.asked.has(x.row.token, x.row.session, f.epoch):
		f.checked++
	case x.excused:
		f.unresolved++
	case f.open || f.book.lost[history.Wiretap] || k.asked.dropped(x.row.token) || k.answered.dropped(x.row.token):
		f.unresolved++
	case x.row.carried:
		f.concludeCarried(k, x)
	case !k.answered.has(x.row.token, x.row.session, f.epoch):
		f.checked++ // the server may take a grant back that nobody was told of
		if len(k.unheard) == maxUnheard {
			k.unheard = slices.Delete(k.unheard, 0, 1)
		}
		k.unheard = append(k.unheard, x)
	default:
		f.endedEarly(x)
	}
}

// concludeCarried judges the end of a grant from an earlier epoch by what was said in that one. A release that was asked for
// then may be carried out now.
func (f *leases) concludeCarried(k *leaseKey, x earlyEnd) {
	switch told := k.answered.had(x.row.token, x.row.session); {
	case k.asked.had(x.row.token, x.row.session), k.asked.older, !told && k.answered.older:
		f.unresolved++
	case !told:
		f.checked++
	default:
		f.endedEarly(x)
	}
}

func (f *leases) endedEarly(x earlyEnd) {
	f.checked++
	f.report(fmt.Sprintf("%s's grant of key %s with token %d ended before its expiry at %s without a release under its token, a revoke or its session's end",
		x.row.owner, x.key, x.row.token, x.row.expires), want{key: x.key, tokens: [2]int64{x.row.token}}, x.row.event, x.event)
}

// Finish: what nobody has asked for by now, nobody asked for, if the wiretap is whole.
func (f *leases) Finish(whole func(history.Witness) bool) {
	f.open = !whole(history.Wiretap)
	f.passed = math.MaxInt64
	f.settle()
}

func (f *leases) Verdict() verdict.Invariant {
	return f.verdict(among(f.danger.counts(map[string]int64{"grants": f.granted, "renewals": f.renewed, "lapsed": f.lapsed, "takeovers": f.takeovers}), map[string]int64{"early_ends_judged": f.endsJudged}, map[string]int64{"kills_holding": f.book.kills.holding}, f.book.messages.order(), f.book.injections.late(), f.book.clocks.ofStores()))
}
