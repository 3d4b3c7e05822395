package reports

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
)

var update = flag.Bool("update", false, "write the golden files anew")

// listed is a history that lies in memory.
type listed struct{ events []history.Event }

func (l *listed) Next(e *history.Event) error {
	if len(l.events) == 0 {
		return eof
	}
	*e, l.events = l.events[0], l.events[1:]
	return nil
}

func (l *listed) Close() error { return nil }

func inMemory(events []history.Event) opener {
	return func() (reader, error) { return &listed{events}, nil }
}

// golden compares what the page's script gets with the committed file.
func golden(t *testing.T, name string, data pageData) {
	t.Helper()
	got, err := json.MarshalIndent(data, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(want), got) {
		t.Errorf("the page's data is not that of %s; look at the difference, then run go test ./reports -update", path)
	}
}

func TestTheDataOfAHealthyRun(t *testing.T) {
	s := play(3, false, 3, 3, 4*time.Second)
	st := study(verdictOf(s, "on"), inMemory(s.events), fullLimits)
	if st.problem != nil {
		t.Fatal(st.problem)
	}
	golden(t, "healthy.json", st.data)
}

func TestTheDataOfAViolatedRun(t *testing.T) {
	s := play(3, true, 3, 3, 4*time.Second)
	run := verdictOf(s, "rail-off")
	accuse(&run, s)
	golden(t, "violated.json", study(run, inMemory(s.events), fullLimits).data)
}

// The golden files say that nothing changed; the tests below say that it is right.

func TestEveryStaleWriteIsMarkedOnceAtItsFencePoint(t *testing.T) {
	s := play(5, false, 12, 5, 12*time.Second)
	st := study(verdictOf(s, "on"), inMemory(s.events), fullLimits)
	points := map[string]int64{}
	for _, m := range st.data.Marks {
		if m.token >= m.highest && len(m.token) == len(m.highest) {
			t.Errorf("the mark at %d µs has token %s and highest %s: it is not stale", m.at, m.token, m.highest)
		}
		points[m.point]++
	}
	if points["rail"] != s.rail || points["account"] != s.row || s.rail == 0 || s.row == 0 {
		t.Errorf("the page marks %v; the scene has %d stale writes at the rail and %d at the row", points, s.rail, s.row)
	}
}

func TestLeasesEndAsTheyEnded(t *testing.T) {
	s := play(5, false, 12, 5, 12*time.Second)
	d := study(verdictOf(s, "on"), inMemory(s.events), fullLimits).data
	how := map[leaseEnd]int{}
	byAccount := map[int][]lease{}
	for _, l := range d.Leases {
		how[l.end]++
		byAccount[l.account] = append(byAccount[l.account], l)
		if l.end == endExpired && l.to-l.from != 1_000_000 {
			t.Errorf("the lease of token %s ran out after %d µs, its TTL was 1 s", l.token, l.to-l.from)
		}
	}
	if how[endExpired] != len(s.lates) || how[endReleased] != int(s.posted) {
		t.Errorf("leases ended %v; the scene has %d that ran out and %d that were released", how, len(s.lates), s.posted)
	}
	for a, ls := range byAccount {
		slices.SortFunc(ls, func(x, y lease) int { return int(x.from - y.from) })
		for i := 1; i < len(ls); i++ {
			if ls[i].from < ls[i-1].to {
				t.Errorf("two leases of account %d overlap: %v and %v", a, ls[i-1], ls[i])
			}
		}
	}
}

func TestTheStoryOfAStaleSubmitTellsWhatHappenedInOrder(t *testing.T) {
	s := play(5, false, 12, 5, 12*time.Second)
	d := study(verdictOf(s, "on"), inMemory(s.events), fullLimits).data
	i := slices.IndexFunc(d.Stories, func(s story) bool { return s.Kind == kindRail })
	if i < 0 {
		t.Fatal("no story of a stale write refused at the rail is told")
	}
	st := d.Stories[i]
	var told []string
	for _, x := range st.Steps {
		told = append(told, strings.TrimSpace(st.Lanes[x.From]+" "+x.Token)+": "+strings.Join(x.Text, ", "))
	}
	all := strings.Join(told, "\n")
	l := s.lates[slices.IndexFunc(s.lates, func(l late) bool { return l.job.payout == st.Payout })]
	at := 0
	for _, want := range []string{
		": acquire", token(l.old) + ": granted", token(l.old) + ": claim", "PENDING → CLAIMED", token(l.old) + ": submitted", "CLAIMED → RAIL_SUBMITTED", ": stopped",
		token(l.old) + ": lease ran out", token(l.new) + ": granted", token(l.new) + ": claim", "taken over in RAIL_SUBMITTED", token(l.new) + ": submit ", "→ " + token(l.new) + ", attempt recorded",
		": transfer", "EUR moved", "outcome ACKED", ": resumed", token(l.old) + ": submit ", "refusal recorded", "FENCED_OUT, highest " + token(l.new), "RAIL_ACKED → POSTED",
	} {
		n := strings.Index(all[at:], want)
		if n < 0 {
			t.Fatalf("%q is not told, or not in its place:\n%s", want, all)
		}
		at += n
	}
	for _, want := range []string{string(l.who) + " came first, with token " + token(l.old), "took over with token " + token(l.new), "refused at the rail", "Money moved once", "ended POSTED"} {
		if !strings.Contains(st.Caption, want) {
			t.Errorf("the caption does not say %q: %s", want, st.Caption)
		}
	}
	if len(st.Bands) != 1 || len(st.Holds) != 2 || !st.Holds[0].Stale || st.Holds[1].Stale {
		t.Errorf("the story has bands %v and holds %v; one pause, one lost and one released lease were played", st.Bands, st.Holds)
	}
}

func TestTheFirstStoryIsTheHeadlines(t *testing.T) {
	s := play(3, true, 12, 4, 10*time.Second)
	run := verdictOf(s, "rail-off")
	accuse(&run, s)
	st := study(run, inMemory(s.events), fullLimits)
	v := st.violations[0]
	if v.invariant != "INV-02" {
		t.Fatalf("the first violation shown is of %s, the headline is of INV-02", v.invariant)
	}
	if g := st.data.Guilty[0]; g.Story < 0 || st.data.Stories[g.Story].Payout != v.Payout || !st.data.Stories[g.Story].Guilty {
		t.Errorf("the headline's violation leads to story %d", g.Story)
	}
	told := st.data.Stories[st.data.Guilty[0].Story]
	if !strings.Contains(told.Caption, "was not refused") || !strings.Contains(told.Caption, "Money moved 2 times") {
		t.Errorf("the story of a double payment is captioned %q", told.Caption)
	}
	if n := strings.Count(flat(told), "for the second time"); n != 1 {
		t.Errorf("the second transfer is told %d times", n)
	}
}

func flat(s story) string {
	var b strings.Builder
	for _, x := range s.Steps {
		b.WriteString(strings.Join(x.Text, " ") + "\n")
	}
	return b.String()
}

func TestTokensStayExact(t *testing.T) {
	s := play(3, false, 1, 2, 3*time.Second)
	const high = int64(9_223_372_036_854_775_000)
	for i := range s.events { // as if all of it had happened just below 2^63
		e := &s.events[i]
		for _, n := range []*int64{&e.Token, &e.Granted, &e.Highest} {
			if *n != 0 {
				*n += high
			}
		}
	}
	raw, err := json.Marshal(study(verdictOf(s, "on"), inMemory(s.events), fullLimits).data)
	if err != nil {
		t.Fatal(err)
	}
	want := `"` + token(high+s.lates[0].old) + `"`
	if !bytes.Contains(raw, []byte(want)) {
		t.Errorf("token %s is not in the data as a string", want)
	}
	if bytes.Contains(raw, []byte("e+18")) || bytes.Contains(bytes.ReplaceAll(raw, []byte(`"92233`), nil), []byte(",92233")) {
		t.Error("a token is in the data as a number")
	}
}

func TestAHistoryThatBreaksOffStillGivesAReport(t *testing.T) {
	dir := t.TempDir()
	s := play(3, false, 3, 3, 4*time.Second)
	store(t, filepath.Join(dir, "history"), s.events)
	tap := filepath.Join(dir, "history", "wiretap.ndjson")
	if err := os.Truncate(tap, 20_000); err != nil {
		t.Fatal(err)
	}
	for name, where := range map[string]string{"torn": filepath.Join(dir, "history"), "missing": filepath.Join(dir, "nowhere")} {
		run := verdictOf(s, "on")
		run.Overall, run.Reason, run.Gaps = verdict.Inconclusive, "the wiretap's file is torn", map[string]string{"wiretap": "no trailer"}
		if err := Write(dir, run, where); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		html, err := os.ReadFile(filepath.Join(dir, FileName))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Inconclusive", "no trailer", "torn"} {
			if !bytes.Contains(html, []byte(want)) {
				t.Errorf("%s: the report does not say %q", name, want)
			}
		}
		if said := bytes.Contains(html, []byte("could not be read to its end")); said != (name == "missing") {
			t.Errorf("%s: the report says that the history could not be read: %v", name, said)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestABigHistoryGivesASmallPage(t *testing.T) {
	if testing.Short() {
		t.Skip("a big history takes some seconds")
	}
	s := play(11, true, 30, 12, 20*time.Second)
	run := verdictOf(s, "rail-off")
	accuse(&run, s)
	// Limits are lowered so that a history of this size is to the page what one of a million events is.
	lim := limits{stories: 10, steps: 120, payouts: 300, leases: 300, marks: 4, rungs: 400}
	st := study(run, inMemory(s.events), lim)
	d := st.data
	if len(d.Payouts) > lim.payouts || len(d.Leases) > 2*lim.leases || len(d.Marks) > 2*lim.marks || len(d.Stories) > lim.stories {
		t.Errorf("%d payouts, %d leases, %d marks, %d stories: above the limits %+v", len(d.Payouts), len(d.Leases), len(d.Marks), len(d.Stories), lim)
	}
	if d.Omitted.Leases == 0 || d.Omitted.Payouts == 0 || d.Density == nil {
		t.Errorf("what is left out is not said: %+v", d.Omitted)
	}
	if n := int64(len(d.Leases)) + d.Omitted.Leases; n != st.survey.grants {
		t.Errorf("%d leases are kept or left out of %d granted", n, st.survey.grants)
	}
	kept := map[string]bool{}
	for _, l := range d.Leases {
		kept[l.token] = true
	}
	near, first := 0, slices.MinFunc(d.Guilty, func(a, b guilty) int { return int(a.At - b.At) })
	for _, l := range study(run, inMemory(s.events), fullLimits).data.Leases {
		if l.to < first.At-1_000_000 || l.from > first.At+1_000_000 {
			continue
		}
		if near++; !kept[l.token] {
			t.Errorf("the lease of token %s is left out, in the neighbourhood of the first violation", l.token)
		}
	}
	if near < 50 {
		t.Errorf("only %d leases lie near the first violation: the test tests little", near)
	}
	last := map[string]string{}
	for i := range s.events {
		for _, c := range s.events[i].Changes {
			if c.Table == "account" {
				last[c.New["account_id"]] = c.New["fence"]
			}
		}
	}
	for _, l := range d.Ladders {
		if end := l.Fence[len(l.Fence)-1].value; !l.Coarse || end != last[d.Accounts[l.Account]] {
			t.Errorf("the ladder of account %d ends at %s, its fence at %s; coarse: %v", l.Account, end, last[d.Accounts[l.Account]], l.Coarse)
		}
	}
	html, err := build(run, inMemory(s.events), 250_000)
	if err != nil || len(html) > 250_000 {
		t.Errorf("a page of at most 250000 bytes has %d: %v", len(html), err)
	}
	html, err = build(run, inMemory(s.events), MaxBytes)
	if err != nil || len(html) > MaxBytes {
		t.Errorf("the page has %d bytes: %v", len(html), err)
	}
	t.Logf("%d events, %d bytes", len(s.events), len(html))
}

func TestThinningKeepsTheLastStepAndTheOnesThatMatter(t *testing.T) {
	for n := 2; n < 12; n++ {
		var rungs []rung
		for i := range n {
			rungs = append(rungs, rung{int64(i), num(int64(i))})
		}
		out := thin(rungs, func(r rung) bool { return r.at == 1 })
		if len(out) > n/2+2 || out[0].at != 0 || out[1].at != 1 || out[len(out)-1].at != int64(n-1) {
			t.Errorf("%d steps thinned to %v", n, out)
		}
	}
}

func TestACallThatNeverCameBackIsToldWithoutAnAnswer(t *testing.T) {
	s := play(3, false, 1, 100, 2*time.Second)
	cut := slices.IndexFunc(s.events, func(e history.Event) bool { return e.Op == contract.OpSubmit && e.Stage == history.Answered })
	d := study(verdictOf(s, "on"), inMemory(s.events[:cut]), fullLimits).data
	if len(d.Stories) == 0 {
		t.Fatal("no story is told")
	}
	var asked, answered int
	for _, x := range d.Stories[0].Steps {
		if x.Kind == stepCall {
			asked++
		}
		if x.Kind == stepAnswer {
			answered++
		}
	}
	if asked != answered+1 {
		t.Errorf("%d calls and %d answers; exactly one call never came back", asked, answered)
	}
}
