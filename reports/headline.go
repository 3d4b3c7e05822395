package reports

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// headline is what the page, the Markdown summary and the picker of runs say first.
type headline struct {
	Status   verdict.Status
	Tone     string // pass, violated, inconclusive, idle or broken: the page's colour and sign
	Word     string // "Pass", "Violated", …
	Which    string // "INV-02, INV-05"
	Sentence string
	More     string // what goes with it, in a second sentence
}

// lead is the order in which a violated invariant makes the headline: money first, then the order of writes.
var lead = []string{"INV-02", "INV-03", "INV-01", "INV-05", "INV-08", "INV-04", "INV-06", "INV-07"}

func leadRank(id string) int {
	for i, l := range lead {
		if l == id {
			return i
		}
	}
	return len(lead)
}

// fallen lists the violated invariants, the one for the headline first.
func fallen(run verdict.Run) []verdict.Invariant {
	var out []verdict.Invariant
	for _, inv := range run.Invariants {
		if inv.Status == verdict.Violated {
			out = append(out, inv)
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return leadRank(out[a].ID) < leadRank(out[b].ID) })
	return out
}

func ids(invariants []verdict.Invariant) []string {
	out := make([]string, len(invariants))
	for i, inv := range invariants {
		out[i] = inv.ID
	}
	return out
}

// blows is how often processes were stopped and killed, as far as the history says.
type blows struct{ stops, kills int64 }

// hear counts a blow once its effect was seen: a step may not have been done, or have found nothing to kill.
func (b *blows) hear(e *history.Event) {
	switch {
	case e.Phase != "seen":
	case e.Op == "pause":
		b.stops++
	case e.Op == "kill":
		b.kills++
	}
}

// sentence says so, with a space behind it; "" where there were none.
func (b blows) sentence() string {
	var words []string
	if b.stops > 0 {
		words = append(words, "stopped "+times(b.stops))
	}
	if b.kills > 0 {
		words = append(words, "killed "+times(b.kills))
	}
	if len(words) == 0 {
		return ""
	}
	return "Processes were " + list(words) + ". "
}

// headlineOf says what run has shown, and what it had to stand.
func headlineOf(run verdict.Run, stood blows) headline {
	h := verdictOn(run, stood)
	if run.Harness != "" && h.Tone != "broken" {
		h.More = strings.TrimSpace(h.More + " The harness failed besides: " + run.Harness)
	}
	return h
}

// verdictOn is the headline without what failed in the harness besides.
func verdictOn(run verdict.Run, stood blows) headline {
	down := fallen(run)
	h := headline{Status: run.Overall, Which: strings.Join(slices.Sorted(slices.Values(ids(down))), ", ")}
	switch {
	case run.Harness != "" && run.Exit != verdict.ExitViolated: // what fell has fallen, whatever failed besides
		h.Tone, h.Word, h.Sentence = "broken", "The harness failed", run.Harness
		h.More = "What follows is what was recorded until then. It proves nothing about the system."
		return h
	case run.Expect != nil:
		return control(run, h, down)
	case run.Overall == verdict.Violated:
		h.Tone, h.Word = "violated", "Violated"
		h.Sentence, h.More = indict(run, down)
	case run.Overall == verdict.Pass:
		h.Tone, h.Word = "pass", "Pass"
		h.Sentence, h.More = survived(run, stood)
	case run.Overall == verdict.NotExercised:
		h.Tone, h.Word, h.Sentence = "idle", "Not exercised", sentenceCase(brief(firstOf(run.Reason, "The run did not meet the danger that it was to survive.")))
		h.More = "Nothing was seen to break, but the run was too mild to prove anything."
	default:
		h.Tone, h.Word, h.Sentence = "inconclusive", "Inconclusive", sentenceCase(brief(firstOf(run.Reason, "The evidence does not suffice for a verdict.")))
		h.More = gapSentence(run)
	}
	return h
}

// indict is the one sentence of a violation, and how much more there is.
func indict(run verdict.Run, down []verdict.Invariant) (sentence, more string) {
	var found int64
	for _, inv := range down {
		found += inv.Found
	}
	sentence, who := run.Reason, ""
	for _, inv := range down {
		if len(inv.Violations) > 0 {
			sentence, who = tell(inv.Violations[0], subjectsOf(run)), writers(inv.Violations[0])
			break
		}
	}
	sentence = sentenceCase(brief(firstOf(sentence, "An invariant did not hold.")))
	if len(down) == 0 {
		return sentence, ""
	}
	more = fmt.Sprintf("%s of %s in all.", count(max(found, 1), "violation", "violations"), count(int64(len(down)), "invariant", "invariants"))
	if down[0].Guarantee != "" {
		more = down[0].ID + " promises: " + strings.TrimSuffix(down[0].Guarantee, ".") + ". " + more
	}
	return sentence, who + more
}

// writers says whose writes a violation's evidence shows, in order: "First executor-1 under token 6, then executor-2
// under token 1. ".
func writers(v verdict.Violation) string {
	var words []string
	for i := range v.Events {
		e := &v.Events[i]
		if e.W != history.Wiretap || !e.Op.Fenced() || e.Token == 0 {
			continue
		}
		w := clip(string(e.Proc), 60) + " under token " + token(e.Token)
		if len(words) == 0 || words[len(words)-1] != w {
			words = append(words, w)
		}
	}
	if len(words) < 2 || len(words) > 4 {
		return ""
	}
	return "First " + strings.Join(words, ", then ") + ". "
}

var uuid = regexp.MustCompile(`\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)

// brief shortens the ids in a sentence to what the eye can tell apart; the evidence has them whole. Where two begin alike,
// they stay.
func brief(s string) string {
	whole := map[string]string{}
	for _, id := range uuid.FindAllStringSubmatch(s, -1) {
		if other, there := whole[id[1]]; there && other != id[0] {
			return s
		}
		whole[id[1]] = id[0]
	}
	return uuid.ReplaceAllString(s, "$1")
}

// sentenceCase makes a whole sentence of a clause.
func sentenceCase(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || r == utf8.RuneError {
		return s
	}
	if !strings.HasPrefix(s, "executor-") && !strings.HasPrefix(s, "lock-") { // a process's name is written as it is
		s = string(unicode.ToUpper(r)) + s[n:]
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// survived says what a passing run lived through, in a first sentence and a second. Both claim only what an invariant
// of the run has judged.
func survived(run verdict.Run, stood blows) (first, second string) {
	if subjectsOf(run).locks {
		return survivedLocks(run, stood)
	}
	first = "Every invariant held"
	rail, row := stale(run)
	var met []string
	if rail > 0 {
		met = append(met, group(rail)+" at the rail")
	}
	if row > 0 {
		met = append(met, group(row)+" at the account row")
	}
	if len(met) > 0 {
		first += ": " + count(rail+row, "stale write was", "stale writes were") + " refused, " + list(met)
	}
	second = stood.sentence()
	if posted := run.Payouts[string(contract.Posted)]; posted > 0 && held(run, "INV-02") {
		second += count(posted, "payout was", "payouts were") + " posted, and none was paid twice. "
	}
	return first + ".", second + takeovers(run) + judgedOver(run)
}

// takeovers says what the standbys lacked that were promoted, with a space behind it; "" where none was.
func takeovers(run verdict.Run) string {
	if lost := verdict.Losses(run.Invariants); lost != "" && held(run, "DUR-01") {
		return sentenceCase(lost) + " "
	}
	return ""
}

func judgedOver(run verdict.Run) string {
	return count(int64(len(run.Invariants)), "invariant", "invariants") + " judged over " + group(run.Events) + " events."
}

// survivedLocks is the same for a run in which only the lock was put to work.
func survivedLocks(run verdict.Run, stood blows) (first, second string) {
	first = "Every invariant held"
	if late := lostGrants(run); late > 0 {
		first += ": " + count(late, "use of a grant that was over was", "uses of grants that were over were") + " refused"
		if woken, _ := danger(run, "woken_refused"); woken > 0 {
			first += ", " + group(woken) + " of them to clients that had been stopped with the key in their hands"
		}
	}
	second = stood.sentence()
	if grants, _ := danger(run, "grants"); grants > 0 {
		second += count(grants, "grant", "grants") + " of " + count(int64(run.Settings.Keys), "key", "keys") + ". "
	}
	return first + ".", second + takeovers(run) + judgedOver(run)
}

// lostGrants counts the releases and renewals that were answered LOCK_LOST.
func lostGrants(run verdict.Run) int64 {
	releases, _ := danger(run, "stale_releases")
	renewals, _ := danger(run, "stale_renewals")
	return releases + renewals
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return group(n) + " times"
}

func held(run verdict.Run, id string) bool {
	for _, inv := range run.Invariants {
		if inv.ID == id {
			return inv.Status == verdict.Pass
		}
	}
	return false
}

// stale counts the stale writes that were refused at each fence point: the verdict's danger counters where it has
// them, else all refusals.
func stale(run verdict.Run) (rail, row int64) {
	rail, ok := danger(run, "stale_refused_rail")
	if !ok {
		rail = run.Refusals["rail"]
	}
	row, ok = danger(run, "stale_refused_payment")
	if !ok {
		row = run.Refusals["account"] + run.Refusals["ledger"]
	}
	return rail, row
}

// danger is the highest count that any invariant has of a danger; several may count the same one.
func danger(run verdict.Run, name string) (n int64, ok bool) {
	for _, inv := range run.Invariants {
		if v, has := inv.Danger[name]; has {
			n, ok = max(n, v), true
		}
	}
	return n, ok
}

func gapSentence(run verdict.Run) string {
	var parts []string
	for _, w := range sortedKeys(run.Gaps) {
		parts = append(parts, w+": "+run.Gaps[w])
	}
	if len(parts) == 0 {
		return ""
	}
	return "Missing evidence: " + strings.Join(parts, "; ") + "."
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
