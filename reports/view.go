package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

// view is what the template shows without any script: a reader with scripts off, or on paper, still gets the verdict,
// its evidence and the run's settings.
type view struct {
	Head       headline
	Run        verdict.Run
	Title      string
	Started    string
	Chips      []pair
	Facts      []factTile
	Violations []violationView
	MoreFound  string
	Invariants []invariantView
	Points     []pointView
	Phases     []pair
	Settings   []pair
	Services   []pair
	Versions   []pair
	Payouts    []pair
	Operations []pair
	Gaps       []pair
	Problem    string
	Omitted    string
	Lanes      int
	Locks      bool // only the lock was put to work: no story of a payout, no fence points
	Policy     template.HTMLAttr
	Data       template.JS
	Script     template.JS
	Style      template.CSS
}

type pair struct{ Name, Value string }

type factTile struct{ Number, Label, Tone string }

type violationView struct {
	Invariant, Sentence      string
	Account, Payout, Key, At string
	Tokens                   []string
	Story                    int
	Open                     bool
	Page                     string // more of it, beside the report
	Events                   []eventView
	Twice                    string // what Reissued lists
	Reissued                 []reissueView
}

type eventView struct {
	I       int64
	At      string
	Witness string
	saw
	Raw string
}

type invariantView struct {
	ID, Guarantee, Word, Tone string
	Checked, Unresolved       string
	Found                     string
	Dangers                   []pair
	Reason                    string
}

type pointView struct{ Name, Where, Refused, Stale, Note string }

// statusWord is a status as the page writes it, with the tone of its sign.
func statusWord(s verdict.Status) (word, mood string) {
	switch s {
	case verdict.Pass:
		return "Pass", "pass"
	case verdict.Violated:
		return "Violated", "violated"
	case verdict.NotExercised:
		return "Not exercised", "idle"
	}
	return "Inconclusive", "inconclusive"
}

func viewOf(run verdict.Run, st studied) view {
	v := view{
		Head: headlineOf(run, st.survey.blows), Run: run, Chips: chips(run), Facts: facts(run, st),
		Invariants: invariantViews(run), Points: pointViews(run), Settings: settings(run), Lanes: len(st.data.Clients), Locks: st.data.Locks,
		Services: pairsOf(run.Settings.Services), Versions: pairsOf(run.Versions), Payouts: countsOf(run.Payouts), Operations: countsOf(run.Operations),
	}
	v.Title = v.Head.Word + " · " + run.ID
	if !run.Started.IsZero() {
		v.Started = run.Started.UTC().Format("2 January 2006, 15:04:05 UTC")
	}
	for i, s := range st.violations {
		vv := violationViewOf(s, storyOf(st.data.Stories, s.payout()), i < 2)
		if s.Reissued > 0 && st.survey.reissues.found > 0 {
			vv.Reissued, vv.Twice = st.survey.reissues.view(s.Reissued, s.subjects)
		}
		v.Violations = append(v.Violations, vv)
	}
	if n := st.data.Omitted.Violations; n > 0 {
		v.MoreFound = count(n, "more violation is", "more violations are") + " counted in verdict.json; the page shows the first of each invariant."
	}
	for _, w := range sortedKeys(run.Gaps) {
		v.Gaps = append(v.Gaps, pair{w, run.Gaps[w]})
	}
	if st.problem != nil {
		v.Problem = clip(st.problem.Error(), 600)
	}
	v.Omitted = omittedSentence(st.data.Omitted)
	return v
}

func chips(run verdict.Run) []pair {
	s := run.Settings
	return []pair{{"workload", s.Workload}, {"backend", s.Backend}, {"nemesis", s.Nemesis}, {"fencing", s.Fencing}, {"seed", fmt.Sprint(s.Seed)}}
}

// facts are the three or four numbers under the headline.
func facts(run verdict.Run, st studied) []factTile {
	rail, row := stale(run)
	var out []factTile
	add := func(n int64, one, many, tone string) {
		label := many
		if n == 1 {
			label = one
		}
		out = append(out, factTile{group(n), label, tone})
	}
	var found int64
	for _, inv := range run.Invariants {
		found += inv.Found
	}
	if found > 0 {
		add(found, "violation", "violations", "bad")
	}
	if p := st.survey.blows.stops; p > 0 {
		add(p, "process stopped past its check", "times a process was stopped", "")
	} else if n := int64(len(st.data.Windows)); n > 0 {
		add(n, "fault", "faults", "")
	}
	if subjectsOf(run).locks {
		return append(out, lockFacts(run)...)
	}
	refused := func(n int64, where, off string) {
		if f := run.Settings.Fencing; n == 0 && (f == off || f == "off") {
			where += ", where fencing was off"
		}
		add(n, "stale write refused at "+where, "stale writes refused at "+where, "")
	}
	refused(rail, "the rail", "rail-off")
	refused(row, "the account row", "payment-off")
	if posted, all := run.Payouts["POSTED"], total(run.Payouts); all > 0 {
		out = append(out, factTile{group(posted), "of " + group(all) + " payouts posted", ""})
	}
	return out
}

// lockFacts are the numbers of a run in which only the lock was put to work.
func lockFacts(run verdict.Run) []factTile {
	var out []factTile
	for _, f := range []struct{ counter, one, many string }{
		{"woken_refused", "client came back without its key and was told so", "times a client came back without its key and was told so"},
		{"contended", "request for a key that somebody else held", "requests for a key that somebody else held"},
		{"grants", "grant", "grants"},
	} {
		n, there := danger(run, f.counter)
		label := f.many
		if n == 1 {
			label = f.one
		}
		if there && (n > 0 || f.counter != "woken_refused") {
			out = append(out, factTile{group(n), label, ""})
		}
	}
	return out
}

func total(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

func violationViewOf(s shown, story int, open bool) violationView {
	v := violationView{Invariant: s.invariant, Sentence: strings.TrimSuffix(sentenceCase(s.told), "."), Account: s.account(), Payout: s.payout(), Key: s.Key,
		At: seconds(micros(s.decided())), Story: story, Open: open, Page: s.Page}
	switch {
	case s.Reissued > 0: // it is about as many as there are tokens
		v.Account, v.Key = "", ""
	case s.subjects.locks:
		v.Account = ""
	case v.Account != "":
		v.Key = ""
	}
	moved := map[string]bool{}
	for i := range s.Events[:min(len(s.Events), 12)] {
		e := s.Events[i]
		ev := eventView{I: e.I, At: seconds(micros(e.T)), Witness: string(e.W), saw: phrase(&e)}
		if e.W == history.Journal {
			if moved[e.Payout] {
				ev.What, ev.Tone = ev.What+", once more", toneBad
			}
			moved[e.Payout] = true
		}
		if ev.Token != "" && !slices.Contains(v.Tokens, ev.Token) {
			v.Tokens = append(v.Tokens, ev.Token)
		}
		e.Req, e.Res = clip(e.Req, 600), clip(e.Res, 600)
		if raw, err := json.MarshalIndent(e, "", "  "); err == nil {
			ev.Raw = clip(string(raw), 6000)
		}
		v.Events = append(v.Events, ev)
	}
	return v
}

func invariantViews(run verdict.Run) []invariantView {
	var out []invariantView
	for _, inv := range run.Invariants {
		v := invariantView{ID: inv.ID, Guarantee: inv.Guarantee, Checked: group(inv.Checked), Reason: inv.Reason}
		v.Word, v.Tone = statusWord(inv.Status)
		if inv.Unresolved > 0 {
			v.Unresolved = group(inv.Unresolved)
		}
		if inv.Found > 0 {
			v.Found = count(inv.Found, "violation", "violations")
		}
		for _, d := range sortedKeys(inv.Danger) {
			v.Dangers = append(v.Dangers, pair{dangerName(d), group(inv.Danger[d])})
		}
		out = append(out, v)
	}
	return out
}

// dangerName turns a counter's name into words: stale_refused_rail → "stale refused rail".
func dangerName(s string) string { return strings.ReplaceAll(s, "_", " ") }

func pointViews(run verdict.Run) []pointView {
	f := run.Settings.Fencing
	rail, row := stale(run)
	off := func(point string) string {
		if f == point || f == "off" {
			return "switched off in this run"
		}
		return ""
	}
	out := []pointView{{"Account row", "payment-resource: account.fence < token", group(run.Refusals["account"]), group(row), off("payment-off")}}
	if n := run.Refusals["ledger"]; n > 0 {
		out[0].Stale = group(row) + " with the ledger"
		out = append(out, pointView{"Ledger", "payment-resource: account.fence ≤ token", group(n), "", off("payment-off")})
	}
	return append(out, pointView{"Rail", "rail-proxy: rail_high_water < token", group(run.Refusals["rail"]), group(rail), off("rail-off")})
}

func settings(run verdict.Run) []pair {
	s := run.Settings
	out := []pair{{"Workload", s.Workload}, {"Lock backend", s.Backend}, {"Nemesis", s.Nemesis}, {"Fencing", s.Fencing}, {"Seed", fmt.Sprint(s.Seed)}}
	if subjectsOf(run).locks {
		out = append(out, pair{"Client processes", fmt.Sprint(s.Clients)}, pair{"Sessions of each", fmt.Sprint(s.Sessions)}, pair{"Keys", fmt.Sprint(s.Keys)},
			pair{"Turns per second", fmt.Sprint(s.Rate)})
	} else {
		out = append(out, pair{"Executors", fmt.Sprint(s.Executors)}, pair{"Accounts", fmt.Sprint(s.Accounts)}, pair{"Payouts offered per second", fmt.Sprint(s.Rate)})
	}
	return append(out, pair{"Drive", s.Drive.String()}, pair{"Drain, at most", s.Drain.String()}, pair{"Events in the history", group(run.Events)},
		pair{"Exit status", fmt.Sprint(run.Exit)})
}

func pairsOf(m map[string]string) []pair {
	var out []pair
	for _, k := range sortedKeys(m) {
		out = append(out, pair{k, m[k]})
	}
	return out
}

func countsOf(m map[string]int64) []pair {
	var out []pair
	for _, k := range sortedKeys(m) {
		out = append(out, pair{k, group(m[k])})
	}
	return out
}

func omittedSentence(o omissions) string {
	var parts []string
	add := func(n int64, one, many string) {
		if n > 0 {
			parts = append(parts, count(n, one, many))
		}
	}
	add(o.Leases, "lease", "leases")
	add(o.Marks, "refusal", "refusals")
	add(o.Payouts, "payout of the search", "payouts of the search")
	add(o.Windows, "fault window", "fault windows")
	if len(parts) == 0 {
		return ""
	}
	return "To stay small, this page leaves out " + list(parts) + ", away from any violation. The counts include them, and so does the history."
}

// render makes the page.
func render(v view) ([]byte, error) {
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return nil, fmt.Errorf("put the report together: %w", err)
	}
	return b.Bytes(), nil
}
