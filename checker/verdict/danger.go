package verdict

import (
	"slices"
	"strings"
	"time"
)

// Need is what a pass of an invariant needs to have met: at least Min of a danger counter. A run in which the danger
// never came up proves nothing about the guard against it.
type Need struct {
	Invariant string
	Counter   string // a key of Invariant.Danger
	Min       int64
	What      string // the counter in words
}

// point is the fence point whose refusals a counter counts; with its switch off nothing is needed of it.
type point int

const (
	anywhere point = iota
	payment
	rail
)

// entry is a line of the table.
type entry struct {
	nemesis, workload  string
	invariant, counter string
	at                 point
	perRun             bool // the minimum grows with the run; else it is 1
	what               string
}

// danger is the table: which danger a run with a nemesis and a workload must have met for which invariant. An invariant
// without an entry passes on what was checked. Of every nemesis there is a counter that its own steps alone feed: what the
// load meets by itself says nothing about a nemesis that did nothing.
var danger = []entry{
	{"pause", "payout", "INV-01", "stale_refused_payment", payment, true, "stale writes that payment-resource refused with FENCED_OUT"},
	{"pause", "payout", "INV-02", "stale_refused_rail", rail, true, "stale submissions that rail-proxy refused with FENCED_OUT"},
	{"pause", "payout", "INV-03", "stale_refused_payment", payment, true, "stale writes that payment-resource refused with FENCED_OUT"},
	{"pause", "payout", "INV-04", "regrants", anywhere, false, "grants of a key after its first"},
	{"pause", "payout", "INV-05", "stale_refused_payment", payment, true, "stale writes that payment-resource refused with FENCED_OUT"},
	{"pause", "payout", "INV-05", "stale_refused_rail", rail, true, "stale submissions that rail-proxy refused with FENCED_OUT"},
	{"pause", "payout", "INV-06", "lapsed", anywhere, false, "grants that ended with their lease or their session"},
	{"pause", "payout", "INV-07", "superseded", anywhere, false, "requests under a token after a later one had been granted"},
	{"pause", "payout", "INV-08", "takeovers", anywhere, false, "claims of a payout in flight by a higher token"},
	{"pause", "payout", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"none", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"none", "lock", "INV-04", "reentries", anywhere, false, "grants to a session that held the key already"},
	{"none", "lock", "INV-04", "revocations", anywhere, false, "grants that an operator revoked"},
	{"none", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"none", "lock", "INV-06", "stale_releases", anywhere, true, "releases of a grant that was over, answered LOCK_LOST"},
	{"none", "lock", "INV-06", "died_with_session", anywhere, false, "grants that ended with a session that nobody kept alive"},
	{"none", "lock", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"none", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that were refused because somebody else held it"},
	{"none", "lock", "LIN-01", "revokes", anywhere, false, "grants that an operator revoked"},
	{"pause", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"pause", "lock", "INV-04", "reentries", anywhere, false, "grants to a session that held the key already"},
	{"pause", "lock", "INV-04", "revocations", anywhere, false, "grants that an operator revoked"},
	{"pause", "lock", "INV-06", "takeovers", anywhere, false, "grants of a key over a lease that had run out"},
	{"pause", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"pause", "lock", "INV-06", "stale_releases", anywhere, true, "releases of a grant that was over, answered LOCK_LOST"},
	{"pause", "lock", "INV-06", "stale_renewals", anywhere, false, "renewals of a grant that was over, answered LOCK_LOST"},
	{"pause", "lock", "INV-06", "woken_refused", anywhere, true, "clients stopped with a key in their hands that were answered LOCK_LOST when they went on"},
	{"pause", "lock", "INV-06", "died_with_session", anywhere, false, "grants that ended with a session that nobody kept alive"},
	{"pause", "lock", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"pause", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that were refused because somebody else held it"},
	{"pause", "lock", "LIN-01", "expiries", anywhere, false, "grants that ended because their lease had run out"},
	{"pause", "lock", "LIN-01", "revokes", anywhere, false, "grants that an operator revoked"},
	{"kill", "payout", "INV-01", "takeovers", anywhere, false, "writes to a payout's row by a token above the one before"},
	{"kill", "payout", "INV-03", "kills_in_post", anywhere, false, "kills of paydb or payment-resource with a post on its way to them"},
	{"kill", "payout", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"kill", "payout", "INV-04", "kills_after_grant", anywhere, false, "kills of the lock server or of what keeps its locks, right after a grant was answered"},
	{"kill", "payout", "INV-06", "kills_holding", anywhere, false, "executors killed with a lock in their hands"},
	{"kill", "payout", "INV-06", "lapsed", anywhere, false, "grants that ended with their lease or their session"},
	{"kill", "payout", "INV-08", "takeovers", anywhere, false, "claims of a payout in flight by a higher token"},
	{"kill", "payout", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"kill", "payout", "DUR-01", "kills_of_stores", anywhere, false, "kills of a database, or of a member of etcd"},
	{"revoke", "payout", "INV-04", "revocations", anywhere, true, "grants that an operator revoked"},
	{"revoke", "payout", "INV-04", "revokes_injected", anywhere, true, "grants that the operator of the nemesis revoked"},
	{"revoke", "payout", "INV-06", "stale_releases", anywhere, true, "releases of a grant that was over, answered LOCK_LOST"},
	{"revoke", "lock", "INV-04", "revocations", anywhere, true, "grants that an operator revoked"},
	{"revoke", "lock", "INV-04", "revokes_injected", anywhere, true, "grants that the operator of the nemesis revoked"},
	{"revoke", "lock", "INV-06", "stale_releases", anywhere, true, "releases of a grant that was over, answered LOCK_LOST"},
	{"revoke", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"revoke", "lock", "LIN-01", "revokes", anywhere, true, "grants that an operator revoked"},
	{"kill", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"kill", "lock", "INV-04", "kills_after_grant", anywhere, false, "kills of the lock server or of what keeps its locks, right after a grant was answered"},
	{"kill", "lock", "INV-06", "kills_holding", anywhere, false, "clients killed with a key in their hands"},
	{"kill", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"kill", "lock", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"kill", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that were refused because somebody else held it"},
	{"kill", "lock", "LIN-01", "ambiguous", anywhere, false, "calls of which nobody heard whether they had their effect"},
	{"kill", "lock", "DUR-01", "kills_of_stores", anywhere, false, "kills of a database, or of a member of etcd"},
	{"failover", "payout", "INV-04", "failovers", anywhere, false, "standbys of lockdb that were promoted in its place"},
	{"failover", "payout", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"failover", "payout", "INV-04", "regrants_across", anywhere, false, "grants of a key that had been granted before a standby was promoted"},
	{"failover", "payout", "DUR-01", "failovers", anywhere, false, "standbys of lockdb that were promoted in its place"},
	{"failover", "payout", "DUR-01", "standbys_behind", anywhere, false, "standbys that lacked commits of their primary when they were promoted"},
	{"failover", "lock", "INV-04", "failovers", anywhere, false, "standbys of lockdb that were promoted in its place"},
	{"failover", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"failover", "lock", "INV-04", "regrants_across", anywhere, false, "grants of a key that had been granted before a standby was promoted"},
	{"failover", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"failover", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that were refused because somebody else held it"},
	{"failover", "lock", "DUR-01", "failovers", anywhere, false, "standbys of lockdb that were promoted in its place"},
	{"failover", "lock", "DUR-01", "standbys_behind", anywhere, false, "standbys that lacked commits of their primary when they were promoted"},
	{"failover-async", "payout", "INV-04", "failovers", anywhere, false, "standbys of lockdb that were promoted in its place"},
	{"failover-async", "payout", "INV-04", "tokens_lost", anywhere, false, "tokens that had been answered and were lost with the primary"},
	{"failover-async", "payout", "INV-04", "regrants_across", anywhere, false, "grants of a key that had been granted before a standby was promoted"},
	{"failover-async", "payout", "DUR-01", "failovers", anywhere, false, "standbys of lockdb that were promoted in its place"},
	{"failover-async", "payout", "DUR-01", "standbys_behind", anywhere, false, "standbys that lacked commits of their primary when they were promoted"},
	{"failover-async", "lock", "INV-04", "failovers", anywhere, false, "standbys of lockdb that were promoted in its place"},
	{"failover-async", "lock", "INV-04", "tokens_lost", anywhere, false, "tokens that had been answered and were lost with the primary"},
	{"failover-async", "lock", "INV-04", "regrants_across", anywhere, false, "grants of a key that had been granted before a standby was promoted"},
	{"failover-async", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"failover-async", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that were refused because somebody else held it"},
	{"failover-async", "lock", "DUR-01", "failovers", anywhere, false, "standbys of lockdb that were promoted in its place"},
	{"failover-async", "lock", "DUR-01", "standbys_behind", anywhere, false, "standbys that lacked commits of their primary when they were promoted"},
	{"partition", "payout", "INV-01", "stale_refused_payment", payment, false, "stale writes that payment-resource refused with FENCED_OUT"},
	{"partition", "payout", "INV-02", "stale_refused_rail", rail, false, "stale submissions that rail-proxy refused with FENCED_OUT"},
	{"partition", "payout", "INV-03", "stale_refused_payment", payment, false, "stale writes that payment-resource refused with FENCED_OUT"},
	{"partition", "payout", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"partition", "payout", "INV-05", "stale_refused_payment", payment, false, "stale writes that payment-resource refused with FENCED_OUT"},
	{"partition", "payout", "INV-05", "stale_refused_rail", rail, false, "stale submissions that rail-proxy refused with FENCED_OUT"},
	{"partition", "payout", "INV-06", "lapsed", anywhere, false, "grants that ended with their lease or their session"},
	{"partition", "payout", "INV-06", "links_cut", anywhere, false, "times that a link was seen to be cut"},
	{"partition", "payout", "INV-06", "links_held", anywhere, false, "times that a link was seen to keep back what was sent"},
	{"partition", "payout", "INV-07", "superseded", anywhere, false, "requests under a token after a later one had been granted"},
	{"partition", "payout", "INV-08", "takeovers", anywhere, false, "claims of a payout in flight by a higher token"},
	{"partition", "payout", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"partition", "payout", "DUR-01", "answers_lost", anywhere, false, "answers that did not reach whoever waited for them"},
	{"slow", "payout", "INV-01", "stale_refused_payment", payment, false, "stale writes that payment-resource refused with FENCED_OUT"},
	{"slow", "payout", "INV-02", "stale_refused_rail", rail, false, "stale submissions that rail-proxy refused with FENCED_OUT"},
	{"slow", "payout", "INV-03", "stale_refused_payment", payment, false, "stale writes that payment-resource refused with FENCED_OUT"},
	{"slow", "payout", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"slow", "payout", "INV-05", "stale_refused_payment", payment, false, "stale writes that payment-resource refused with FENCED_OUT"},
	{"slow", "payout", "INV-05", "stale_refused_rail", rail, false, "stale submissions that rail-proxy refused with FENCED_OUT"},
	{"slow", "payout", "INV-06", "links_slowed", anywhere, false, "times that a link was seen to be slow"},
	{"slow", "payout", "INV-07", "superseded", anywhere, false, "requests under a token after a later one had been granted"},
	{"slow", "payout", "INV-08", "takeovers", anywhere, false, "claims of a payout in flight by a higher token"},
	{"slow", "payout", "DUR-01", "answers_lost", anywhere, false, "answers that did not reach whoever waited for them"},
	{"flaky", "payout", "INV-01", "stale_refused_payment", payment, false, "stale writes that payment-resource refused with FENCED_OUT"},
	{"flaky", "payout", "INV-02", "stale_refused_rail", rail, false, "stale submissions that rail-proxy refused with FENCED_OUT"},
	{"flaky", "payout", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"flaky", "payout", "INV-05", "stale_refused_payment", payment, false, "stale writes that payment-resource refused with FENCED_OUT"},
	{"flaky", "payout", "INV-05", "stale_refused_rail", rail, false, "stale submissions that rail-proxy refused with FENCED_OUT"},
	{"flaky", "payout", "INV-05", "messages_late", anywhere, false, "messages that were delayed"},
	{"flaky", "payout", "INV-05", "messages_overtaken", anywhere, false, "requests that a later write overtook"},
	{"flaky", "payout", "INV-07", "superseded", anywhere, false, "requests under a token after a later one had been granted"},
	{"flaky", "payout", "INV-08", "takeovers", anywhere, false, "claims of a payout in flight by a higher token"},
	{"flaky", "payout", "DUR-01", "replays", anywhere, false, "requests that were sent again and answered with what was stored"},
	{"flaky", "payout", "DUR-01", "messages_lost", anywhere, false, "messages that were lost"},
	{"flaky", "payout", "DUR-01", "messages_repeated", anywhere, false, "requests that arrived twice"},
	{"flaky", "payout", "DUR-01", "links_reset", anywhere, false, "times that a link was seen to break connections"},
	{"flaky", "payout", "DUR-01", "answers_lost", anywhere, false, "answers that did not reach whoever waited for them"},
	{"clock", "payout", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"clock", "payout", "INV-06", "clocks_of_stores", anywhere, false, "wall clocks of what keeps the locks that were seen to be wrong"},
	{"clock", "payout", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"clock", "payout", "SDK-01", "clocks_of_holders", anywhere, false, "wall clocks of executors with a lock in their hands that were seen to be wrong"},
	{"clock", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"clock", "lock", "INV-06", "clocks_of_stores", anywhere, false, "wall clocks of what keeps the locks that were seen to be wrong"},
	{"clock", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"clock", "lock", "INV-06", "stale_releases", anywhere, true, "releases of a grant that was over, answered LOCK_LOST"},
	{"clock", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"partition", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"partition", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"partition", "lock", "INV-06", "stale_releases", anywhere, true, "releases of a grant that was over, answered LOCK_LOST"},
	{"partition", "lock", "INV-06", "links_cut", anywhere, false, "times that a link was seen to be cut"},
	{"partition", "lock", "INV-06", "links_held", anywhere, false, "times that a link was seen to keep back what was sent"},
	{"partition", "lock", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"partition", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"partition", "lock", "LIN-01", "ambiguous", anywhere, false, "calls of which nobody heard whether they had their effect"},
	{"partition", "lock", "DUR-01", "answers_lost", anywhere, false, "answers that did not reach whoever waited for them"},
	{"slow", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"slow", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"slow", "lock", "INV-06", "stale_releases", anywhere, true, "releases of a grant that was over, answered LOCK_LOST"},
	{"slow", "lock", "INV-06", "links_slowed", anywhere, false, "times that a link was seen to be slow"},
	{"slow", "lock", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"slow", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"flaky", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"flaky", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"flaky", "lock", "INV-06", "stale_releases", anywhere, true, "releases of a grant that was over, answered LOCK_LOST"},
	{"flaky", "lock", "INV-06", "messages_late", anywhere, false, "messages that were delayed"},
	{"flaky", "lock", "INV-06", "messages_overtaken", anywhere, false, "requests that a later write overtook"},
	{"flaky", "lock", "LIVE-01", "dead_holders", anywhere, false, "grants of a key whose holder had let its lease run out"},
	{"flaky", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"flaky", "lock", "DUR-01", "messages_lost", anywhere, false, "messages that were lost"},
	{"flaky", "lock", "DUR-01", "messages_repeated", anywhere, false, "requests that arrived twice"},
	{"flaky", "lock", "DUR-01", "links_reset", anywhere, false, "times that a link was seen to break connections"},
	{"flaky", "lock", "DUR-01", "answers_lost", anywhere, false, "answers that did not reach whoever waited for them"},
	{"sweep", "payout", "INV-05", "messages_late", anywhere, false, "messages that were delayed"},
	{"sweep", "payout", "DUR-01", "messages_lost", anywhere, false, "messages that were lost"},
	{"sweep", "payout", "DUR-01", "messages_repeated", anywhere, false, "requests that arrived twice"},
	{"sweep", "lock", "INV-06", "messages_late", anywhere, false, "messages that were delayed"},
	{"sweep", "lock", "DUR-01", "messages_lost", anywhere, false, "messages that were lost"},
	{"sweep", "lock", "DUR-01", "messages_repeated", anywhere, false, "requests that arrived twice"},
	{"restore", "payout", "INV-04", "rewinds", anywhere, false, "lock stores put back that knew of fewer tokens than had been answered"},
	{"restore", "payout", "INV-04", "regrants_across", anywhere, false, "grants of a key that had been granted before the lock store was put back"},
	{"restore", "payout", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"restore", "lock", "INV-04", "rewinds", anywhere, false, "lock stores put back that knew of fewer tokens than had been answered"},
	{"restore", "lock", "INV-04", "regrants_across", anywhere, false, "grants of a key that had been granted before the lock store was put back"},
	{"restore", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"restore", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"restore-unguarded", "payout", "INV-04", "rewinds", anywhere, false, "lock stores put back that knew of fewer tokens than had been answered"},
	{"restore-unguarded", "payout", "INV-04", "regrants_across", anywhere, false, "grants of a key that had been granted before the lock store was put back"},
	{"restore-unguarded", "lock", "INV-04", "rewinds", anywhere, false, "lock stores put back that knew of fewer tokens than had been answered"},
	{"restore-unguarded", "lock", "INV-04", "regrants_across", anywhere, false, "grants of a key that had been granted before the lock store was put back"},
	{"disk-full", "payout", "INV-03", "full_paydb", anywhere, false, "times that paydb's disk was seen to be full"},
	{"disk-full", "payout", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"disk-full", "payout", "DUR-01", "full_paydb", anywhere, false, "times that paydb's disk was seen to be full"},
	{"disk-full", "payout", "DUR-01", "logs_exhausted", anywhere, false, "databases that ended for want of room for their log"},
	{"disk-full", "payout", "DUR-01", "refused_full", anywhere, true, "calls that were answered 503 by whoever rests on a full disk"},
	{"disk-full", "lock", "INV-04", "regrants", anywhere, true, "grants of a key after its first"},
	{"disk-full", "lock", "INV-06", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"disk-full", "lock", "LIN-01", "contended", anywhere, true, "requests for a key that somebody else held"},
	{"disk-full", "lock", "DUR-01", "logs_exhausted", anywhere, false, "databases that ended for want of room for their log"},
	{"disk-full", "lock", "DUR-01", "refused_full", anywhere, true, "calls that were answered 503 by whoever rests on a full disk"},
}

// dangerOnPG is what runs on PostgreSQL must have met besides: what happened to lockdb.
var dangerOnPG = []entry{
	{"clock", "payout", "INV-06", "lockdb_ahead", anywhere, false, "times that lockdb's clock was seen to be far ahead"},
	{"clock", "payout", "INV-06", "lockdb_behind", anywhere, false, "times that lockdb's clock was seen to be far behind"},
	{"clock", "payout", "INV-06", "refused_behind", anywhere, false, "renewals and heartbeats that were refused with 503, within a second, by a lockdb whose clock was far behind"},
	{"clock", "payout", "INV-06", "early_ends_judged", anywhere, true, "early ends of grants that no wrong clock explains, after there had been one"},
	{"clock", "lock", "INV-06", "lockdb_ahead", anywhere, false, "times that lockdb's clock was seen to be far ahead"},
	{"clock", "lock", "INV-06", "lockdb_behind", anywhere, false, "times that lockdb's clock was seen to be far behind"},
	{"clock", "lock", "INV-06", "refused_behind", anywhere, false, "renewals and heartbeats that were refused with 503, within a second, by a lockdb whose clock was far behind"},
	{"clock", "lock", "INV-06", "early_ends_judged", anywhere, true, "early ends of grants that no wrong clock explains, after there had been one"},
	{"disk-full", "payout", "INV-04", "full_lockdb", anywhere, false, "times that lockdb's disk was seen to be full"},
	{"disk-full", "payout", "DUR-01", "full_lockdb", anywhere, false, "times that lockdb's disk was seen to be full"},
	{"disk-full", "lock", "INV-04", "full_lockdb", anywhere, false, "times that lockdb's disk was seen to be full"},
	{"disk-full", "lock", "DUR-01", "full_lockdb", anywhere, false, "times that lockdb's disk was seen to be full"},
}

// The minimum of refusals at a fence point: in a run that drives long enough, by backend (an etcd lease lasts longer, so
// fewer pauses fit), and in a short one.
const (
	minOnPG   = 10
	minOnEtcd = 3
	minShort  = 1

	shortDrive = 20 * time.Second // a shorter drive is a short run
)

// Needs lists what passes of a run with settings s need.
func Needs(s Settings) []Need {
	var needs []Need
	table := danger
	if s.Backend != "etcd" {
		table = slices.Concat(danger, dangerOnPG)
	}
	for _, d := range table {
		if !slices.Contains(s.nemeses(), d.nemesis) || d.workload != s.Workload || d.at.off(s.Fencing) {
			continue
		}
		n := Need{Invariant: d.invariant, Counter: d.counter, Min: 1, What: d.what}
		if d.perRun {
			n.Min = minimum(s)
		}
		needs = append(needs, n)
	}
	return needs
}

// nemeses are those of a run; a mix names several.
func (s Settings) nemeses() []string { return strings.Split(s.Nemesis, ",") }

func minimum(s Settings) int64 {
	switch {
	case s.Drive < shortDrive, len(s.nemeses()) > 1: // in a mix each has a part of the time
		return minShort
	case s.Backend == "etcd":
		return minOnEtcd
	}
	return minOnPG
}

// off tells whether fencing switches the point off.
func (p point) off(fencing string) bool {
	switch fencing {
	case "off":
		return p != anywhere
	case "payment-off":
		return p == payment
	case "rail-off":
		return p == rail
	}
	return false
}
