package proxy_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"

	"fenceproof/system/wire"

	"github.com/google/uuid"
)

func newPayout(s *stage) string {
	id := uuid.NewString()
	s.addPayout(id)
	return id
}

// given puts a mark and a record there, as an earlier submission left them.
func (s *stage) given(mark int64, record string) {
	if mark != 0 {
		s.exec(`INSERT INTO rail_high_water (account_id, highest_token) VALUES ($1, $2)`, s.account, mark)
	}
	var outcome, resolved, reference any
	switch record {
	case "":
		return
	case "open":
	case "ACKED":
		reference = "rail-old"
		fallthrough
	default:
		outcome, resolved = record, "now"
	}
	s.exec(`INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, rail_reference, resolved_at)
		VALUES ($1, $2, $3, 40, $4, $5, $6::timestamptz)`, uuid.NewString(), s.payout, "payout-"+s.payout, outcome, reference, resolved)
}

func TestTheFencePointJudgesEveryTokenByMarkAndRecord(t *testing.T) {
	noLeak(t)
	const token = 42
	for _, off := range []bool{false, true} {
		for _, mark := range []int64{0, 41, 42, 43} {
			for _, record := range []string{"", "open", "ACKED", "REJECTED", "TIMEOUT", "FENCED"} {
				t.Run(fmt.Sprintf("fencing off %v, mark %d, record %q", off, mark, record), func(t *testing.T) {
					r := newRail(t, acks)
					s := newStage(t, r.url, setting{fencingOff: off})
					s.given(mark, record)
					before := s.rows()
					_, err := s.submit(token)
					switch attempted := record != "" && record != "FENCED"; {
					case off:
						s.wantLetThrough(err, before, attempted, r)
					case mark >= token:
						s.wantFenced(err, before, mark, r)
					case attempted:
						s.wantDuplicate(err, before, r)
					default:
						s.wantLetThrough(err, before, false, r)
					}
				})
			}
		}
	}
}

func (s *stage) wantLetThrough(err error, before []row, attempted bool, r *rail) {
	s.Helper()
	if err != nil {
		s.Fatalf("answered %v, want 200", err)
	}
	if r.count() != 1 || s.mark() != 42 {
		s.Errorf("forwarded %d times, mark %d; want 1 and 42", r.count(), s.mark())
	}
	after := s.rows()
	if attempted {
		if len(after) != len(before) || after[0] != before[0] {
			s.Errorf("rows %+v, want what was there: %+v", after, before)
		}
		return
	}
	if got := s.attempts(); len(after) != len(before)+1 || len(got) != 1 || got[0].Outcome != "ACKED" || got[0].Token != 42 {
		s.Errorf("rows %+v, want one more, ACKED under token 42", after)
	}
}

func (s *stage) wantFenced(err error, before []row, mark int64, r *rail) {
	s.Helper()
	var d wire.Fenced
	if err := s.wantCode(err, wire.FencedOut).Detail(&d); err != nil {
		s.Fatal(err)
	}
	if want := (wire.Fenced{PresentedToken: 42, HighestToken: mark, ResourceType: "rail", ResourceID: s.account, OwnerID: "executor-1"}); d != want {
		s.Errorf("details %+v, want %+v", d, want)
	}
	if r.count() != 0 || s.mark() != mark {
		s.Errorf("forwarded %d times, mark %d; want 0 and %d", r.count(), s.mark(), mark)
	}
	var fenced int
	for _, row := range s.rows() {
		if row.Outcome == "FENCED" && row.Token == 42 && row.Resolved {
			fenced++
		}
	}
	if fenced != 1 || len(s.rows()) != len(before)+1 {
		s.Errorf("rows %+v, want one more, FENCED under token 42", s.rows())
	}
	for _, event := range []string{`"level":"ERROR","msg":"stale token refused at the rail","event":"fenced_out","resource":"rail"`, `"event":"duplicate_rail_submission_attempted"`,
		fmt.Sprintf(`"presentedToken":42,"highestToken":%d,"ownerId":"executor-1"`, mark)} {
		if !strings.Contains(s.log.String(), event) {
			s.Errorf("the log lacks %s:\n%s", event, s.log)
		}
	}
	s.wantMetric(`lock_fenced_out_total{resource="rail"}`, 1)
	s.wantMetric(`rail_duplicate_attempted_total{}`, 1)
	s.wantMetric(`rail_submission_total{outcome="FENCED"}`, 1)
}

func (s *stage) wantDuplicate(err error, before []row, r *rail) {
	s.Helper()
	var d struct {
		SubmissionID   string  `json:"submissionId"`
		Outcome        *string `json:"outcome"`
		RailReference  *string `json:"railReference"`
		PresentedToken int64   `json:"presentedToken"`
	}
	if err := s.wantCode(err, wire.DuplicateSubmission).Detail(&d); err != nil {
		s.Fatal(err)
	}
	was := before[0]
	if d.SubmissionID != was.ID || d.PresentedToken != was.Token || text(d.Outcome) != was.Outcome || text(d.RailReference) != was.Reference {
		s.Errorf("details %+v, want the record %+v", d, was)
	}
	if after := s.rows(); r.count() != 0 || len(after) != 1 || after[0] != was {
		s.Errorf("forwarded %d times, rows %+v; want 0 and what was there", r.count(), after)
	}
	if s.mark() != 42 {
		s.Errorf("mark %d, want the raise to stay: 42", s.mark())
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// wantMetric compares one counter, written name{label="value"}.
func (s *stage) wantMetric(series string, want float64) {
	s.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if f.GetName()+"{"+strings.Join(labels, ",")+"}" == series {
				if got := m.GetCounter().GetValue(); got != want {
					s.Errorf("%s is %v, want %v", series, got, want)
				}
				return
			}
		}
	}
	s.Errorf("there is no metric %s", series)
}

func TestNoMetricLabelHoldsAnIDOrAToken(t *testing.T) {
	noLeak(t)
	r := newRail(t, acks)
	s := newStage(t, r.url, setting{})
	for _, token := range []int64{42, 42, 43} { // acknowledged, fenced, duplicate
		_, _ = s.submit(token)
	}
	s.wantMetric(`rail_submission_total{outcome="DUPLICATE"}`, 1)
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`^[A-Za-z]+$`)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !word.MatchString(l.GetValue()) {
					t.Errorf("%s has label %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
}

func TestARestartedProxyStillRefuses(t *testing.T) {
	noLeak(t)
	r := newRail(t, acks)
	first := newStage(t, r.url, setting{})
	if _, err := first.submit(42); err != nil {
		t.Fatal(err)
	}
	second := newStage(t, r.url, setting{})
	second.account, second.payout = first.account, first.payout
	_, err := second.submit(41)
	second.wantCode(err, wire.FencedOut)
	second.payout = newPayout(second)
	_, err = second.submit(42)
	second.wantCode(err, wire.FencedOut)
	if r.count() != 1 {
		t.Errorf("forwarded %d times, want once", r.count())
	}
}

func TestTokensKeepEveryBit(t *testing.T) {
	noLeak(t)
	r := newRail(t, acks)
	s := newStage(t, r.url, setting{})
	for _, token := range []int64{1, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		s.payout = newPayout(s)
		if _, err := s.submit(token); err != nil {
			t.Fatalf("token %d: %v", token, err)
		}
		if got := s.attempts(); s.mark() != token || len(got) != 1 || got[0].Token != token {
			t.Errorf("token %d: mark %d, record %+v", token, s.mark(), got)
		}
		_, err := s.submit(token)
		var d wire.Fenced
		if err := s.wantCode(err, wire.FencedOut).Detail(&d); err != nil || d.PresentedToken != token || d.HighestToken != token {
			t.Errorf("token %d came back as %+v (%v)", token, d, err)
		}
	}
}

func TestOfManySubmissionsOfOnePayoutAtOnceOneIsForwarded(t *testing.T) {
	noLeak(t)
	const n = 24
	for _, same := range []bool{true, false} {
		t.Run(fmt.Sprintf("same token %v", same), func(t *testing.T) {
			r := newRail(t, acks)
			s := newStage(t, r.url, setting{})
			var wg sync.WaitGroup
			codes := make([]wire.Code, n)
			for i := range n {
				token := int64(100)
				if !same {
					token += int64(i)
				}
				wg.Go(func() {
					_, err := s.submit(token)
					codes[i] = wire.CodeOf(err)
				})
			}
			wg.Wait()
			acked := 0
			for _, c := range codes {
				switch {
				case c == "":
					acked++
				case c != wire.FencedOut && (same || c != wire.DuplicateSubmission):
					t.Errorf("answered %s", c)
				}
			}
			if acked != 1 || r.count() != 1 || len(s.attempts()) != 1 || len(s.rows()) < 1 {
				t.Errorf("%d acknowledged, %d forwarded, rows %+v", acked, r.count(), s.rows())
			}
			if want := int64(100); same && s.mark() != want || !same && s.mark() != 100+n-1 {
				t.Errorf("mark %d", s.mark())
			}
		})
	}
}
