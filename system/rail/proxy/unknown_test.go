package proxy_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"fenceproof/system/rail/proxy"
	"fenceproof/system/wire"
)

func TestWhenTheIntentsCommitGotNoAnswerNothingIsForwarded(t *testing.T) {
	noLeak(t)
	for _, delivered := range []bool{true, false} {
		t.Run(fmt.Sprintf("paydb committed: %v", delivered), func(t *testing.T) {
			way := newRelay(t)
			r := newRail(t, acks)
			s := newStage(t, r.url, setting{paydb: way.url()})
			way.breakAt(commitMessage, delivered, false)
			_, err := s.submit(41)
			s.wantCode(err, wire.RailAmbiguous)
			if r.count() != 0 {
				t.Errorf("forwarded %d times", r.count())
			}
			want := 0
			if delivered {
				want = 1
			}
			if got := s.attempts(); len(got) != want || (want == 1 && got[0].Outcome != "") || (s.mark() == 41) != delivered {
				t.Errorf("record %+v, mark %d", got, s.mark())
			}
		})
	}
}

func TestARailUnavailableMeansThatNothingWasRecorded(t *testing.T) {
	noLeak(t)
	for _, at := range []string{"begin", "rail_high_water", "INSERT INTO rail_submission"} {
		for _, delivered := range []bool{true, false} {
			t.Run(fmt.Sprintf("broken at %s, delivered %v", at, delivered), func(t *testing.T) {
				way := newRelay(t)
				r := newRail(t, acks)
				s := newStage(t, r.url, setting{paydb: way.url()})
				way.breakAt(at, delivered, false)
				_, err := s.submit(41)
				if e := s.wantCode(err, wire.RailUnavailable); !e.RetrySafe {
					t.Error("nothing was recorded, so the request may be sent again")
				}
				if r.count() != 0 || s.mark() != 0 || len(s.rows()) != 0 {
					t.Fatalf("forwarded %d, mark %d, rows %+v; want nothing", r.count(), s.mark(), s.rows())
				}
				if _, err := s.submit(41); err != nil {
					t.Errorf("the same request again: %v", err)
				}
			})
		}
	}
}

func TestAFencedAttemptWhoseCommitGotNoAnswerIsNotAnsweredAsFenced(t *testing.T) {
	noLeak(t)
	way := newRelay(t)
	r := newRail(t, acks)
	s := newStage(t, r.url, setting{paydb: way.url()})
	s.given(42, "")
	way.breakAt(commitMessage, true, false)
	_, err := s.submit(41)
	s.wantCode(err, wire.RailAmbiguous)
	if r.count() != 0 || s.mark() != 42 {
		t.Errorf("forwarded %d, mark %d", r.count(), s.mark())
	}
}

func TestAnOutcomeIsRecordedAlthoughTheConnectionBreaksOnTheWay(t *testing.T) {
	noLeak(t)
	for _, delivered := range []bool{true, false} {
		t.Run(fmt.Sprintf("paydb heard of it: %v", delivered), func(t *testing.T) {
			way := newRelay(t)
			r := newRail(t, acks)
			s := newStage(t, r.url, setting{paydb: way.url()})
			way.breakAt("UPDATE rail_submission", delivered, false)
			if _, err := s.submit(41); err != nil {
				t.Fatalf("answered %v, want 200", err)
			}
			if got := s.attempts(); len(got) != 1 || got[0].Outcome != "ACKED" || got[0].Reference != "rail-7" || r.count() != 1 || way.times() != 1 {
				t.Errorf("record %+v, forwarded %d, broken %d times", got, r.count(), way.times())
			}
		})
	}
}

func TestAnOutcomeThatCannotBeRecordedIsNotAnswered(t *testing.T) {
	noLeak(t)
	for name, behave := range map[string]func(net.Conn, transfer) bool{
		"ACKED": acks, "REJECTED": says(whole("402 Payment Required", "application/json", decline))} {
		t.Run(name, func(t *testing.T) {
			way := newRelay(t)
			r := newRail(t, behave)
			s := newStage(t, r.url, setting{paydb: way.url()})
			s.proxy.SetRecordTimeout(150 * time.Millisecond)
			way.breakAt("UPDATE rail_submission", false, true)
			_, err := s.submit(41)
			s.wantCode(err, wire.RailAmbiguous)
			if got := s.attempts(); len(got) != 1 || got[0].Outcome != "" || r.count() != 1 {
				t.Errorf("record %+v, forwarded %d times", got, r.count())
			}
		})
	}
}

func TestAfterItsTimeASubmissionIsNotForwarded(t *testing.T) {
	noLeak(t)
	r := newRail(t, acks)
	s := newStage(t, r.url, setting{timeout: 200 * time.Millisecond})
	s.given(40, "")
	tx, err := db.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(context.Background(), `SELECT 1 FROM rail_high_water WHERE account_id = $1 FOR UPDATE`, s.account); err != nil {
		t.Fatal(err)
	}
	_, err = s.submit(41)
	s.wantCode(err, wire.RailUnavailable)
	if err := tx.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r.count() != 0 || s.mark() != 40 || len(s.rows()) != 0 {
		t.Errorf("forwarded %d, mark %d, rows %+v; want nothing", r.count(), s.mark(), s.rows())
	}
}

func TestARailThatDoesNotAnswerInTimeLeavesTheAttemptUnknown(t *testing.T) {
	noLeak(t)
	release := make(chan struct{})
	r := newRail(t, func(c net.Conn, in transfer) bool { <-release; return acks(c, in) })
	s := newStage(t, r.url, setting{timeout: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // long after the proxy has given up
	defer cancel()
	_, err := s.submitBody(ctx, 41, s.body())
	close(release)
	s.wantCode(err, wire.RailAmbiguous)
	if got := s.attempts(); len(got) != 1 || got[0].Outcome != "TIMEOUT" || r.count() != 1 {
		t.Errorf("record %+v, forwarded %d times", got, r.count())
	}
}

func TestACallerThatGoesAwayDoesNotStopTheWork(t *testing.T) {
	noLeak(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	r := newRail(t, func(c net.Conn, in transfer) bool { close(arrived); <-release; return acks(c, in) })
	s := newStage(t, r.url, setting{})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := s.submitBody(ctx, 41, s.body())
		gone <- err
	}()
	<-arrived
	cancel()
	if err := <-gone; wire.CodeOf(err) != "" || err == nil {
		t.Fatalf("answered %v to a caller that had gone", err)
	}
	close(release)
	eventually(t, "the outcome is recorded", func() bool {
		got := s.attempts()
		return len(got) == 1 && got[0].Outcome == "ACKED"
	})
}

// A database's own default may be to answer a COMMIT before it is durable, or to let a transaction see the past only. An
// intent that is forwarded must survive, and be judged by what is.
func TestAnIntentIsDurableWhateverPaydbsDefaultsAre(t *testing.T) {
	if err := paydb.CreateDatabase(t.Context(), "careless", "payapp"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`ALTER DATABASE careless SET synchronous_commit = off`,
		`ALTER DATABASE careless SET default_transaction_isolation = 'repeatable read'`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	store, err := proxy.OpenStore(t.Context(), paydb.URL("payapp", "careless"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	for name, want := range map[string]string{"synchronous_commit": "on", "transaction_isolation": "read committed"} {
		if got, err := store.Setting(t.Context(), name); err != nil || got != want {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
}
