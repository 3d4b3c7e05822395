package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// standby starts a standby of i.
func standby(t *testing.T, i *Instance, name string) *Instance {
	t.Helper()
	home := t.TempDir()
	s, err := i.CreateStandby(t.Context(), Options{Name: name, Folder: filepath.Join(home, "data"), Log: filepath.Join(home, "log")}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Crash(context.Background()), s.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := i.AwaitStandby(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return s
}

// isStandby tells whether i would be a standby when it is started.
func isStandby(i *Instance) bool {
	_, err := os.Lstat(filepath.Join(i.data, standbySignal))
	return err == nil
}

// writers put rows into table word until stop is called, which tells how many each of them was answered for.
func writers(t *testing.T, i *Instance, n int) (enough <-chan struct{}, stop func() []int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	answered, many := make([]int, n), make(chan struct{})
	var work sync.WaitGroup
	var once sync.Once
	for w := range n {
		c, err := pgx.Connect(ctx, i.SuperURL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			defer hangUp(ctx, c)
			for {
				if _, err := c.Exec(ctx, "INSERT INTO word VALUES ($1, $2)", w, answered[w]+1); err != nil {
					return
				}
				if answered[w]++; answered[w] == 50 {
					once.Do(func() { close(many) })
				}
			}
		})
	}
	stop = sync.OnceValue(func() []int { cancel(); work.Wait(); return answered })
	t.Cleanup(func() { stop() })
	return many, stop
}

func TestAPromotedStandbyHasEveryCommitThatWasAnswered(t *testing.T) {
	primary := instance(t)
	statement(t, primary, "CREATE TABLE word (writer INT, n INT)")
	s := standby(t, primary, "ledger-standby")
	if !isStandby(s) || isStandby(primary) {
		t.Fatal("the copy is no standby, or the original is one")
	}
	if err := primary.WaitForStandby(t.Context(), "ledger-standby"); err != nil {
		t.Fatal(err)
	}
	many, stop := writers(t, primary, 4)
	<-many
	if err := primary.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	answered := stop()
	if err := s.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if isStandby(s) {
		t.Fatal("it was promoted, and would be a standby again when it is started")
	}
	for w, n := range answered {
		if got := value[string](t, s, fmt.Sprintf("SELECT count(*)::text FROM word WHERE writer = %d AND n <= %d", w, n)); got != fmt.Sprint(n) {
			t.Errorf("writer %d was answered %d commits, and the promoted server has %s of them", w, n, got)
		}
	}
	statement(t, s, "INSERT INTO word VALUES (9, 9)") // it waits for nobody
}

// A primary goes on to call a standby that has stopped, or that nothing reaches any more, one that it streams to.
func TestAStandbyFollowsOnlyWhenItHasWhatWasWritten(t *testing.T) {
	primary := instance(t)
	s := standby(t, primary, "ledger-standby")
	if err := s.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	statement(t, primary, "CREATE TABLE word (writer INT, n INT)")
	soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := primary.AwaitStandby(soon, "ledger-standby"); err == nil || !strings.Contains(err.Error(), "streaming") {
		t.Errorf("of a standby that has stopped it is said: %v", err)
	}
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := primary.AwaitStandby(t.Context(), "ledger-standby"); err != nil {
		t.Fatal(err)
	}
}

func TestAStandbyCopiedFromABusyServerIsWholeAndHasNoneOfItsSlots(t *testing.T) {
	primary := instance(t)
	statement(t, primary, "CREATE TABLE word (writer INT, n INT)")
	statement(t, primary, "SELECT pg_create_logical_replication_slot('witness', 'pgoutput')")
	many, stop := writers(t, primary, 2)
	<-many
	s := standby(t, primary, "ledger-standby")
	stop()
	if err := primary.WaitForStandby(t.Context(), "ledger-standby"); err != nil {
		t.Fatal(err)
	}
	statement(t, primary, "INSERT INTO word VALUES (9, 9)") // answered when the standby has all before it, too
	want := value[string](t, primary, "SELECT count(*)::text || ' ' || sum(n)::text FROM word")
	if err := primary.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := value[string](t, s, "SELECT count(*)::text || ' ' || sum(n)::text FROM word"); got != want {
		t.Errorf("rows and their sum are %s, and were %s", got, want)
	}
	if got := value[string](t, s, "SELECT count(*)::text FROM pg_replication_slots"); got != "0" {
		t.Errorf("it has %s slots that nobody reads", got)
	}
}

func TestAPromotedServerCanHaveAStandbyOfItsOwnAndCommitsOfBothAreThere(t *testing.T) {
	primary := instance(t)
	statement(t, primary, "CREATE TABLE word (writer INT, n INT)")
	first := standby(t, primary, "ledger-standby")
	if err := primary.WaitForStandby(t.Context(), "ledger-standby"); err != nil {
		t.Fatal(err)
	}
	statement(t, primary, "INSERT INTO word VALUES (1, 1)")
	if err := primary.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := standby(t, first, "ledger-standby")
	if err := first.WaitForStandby(t.Context(), "ledger-standby"); err != nil {
		t.Fatal(err)
	}
	statement(t, first, "INSERT INTO word VALUES (2, 2)")
	if err := errors.Join(first.Crash(t.Context()), second.Promote(t.Context()), second.Promote(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := value[string](t, second, "SELECT string_agg(n::text, ' ' ORDER BY n) FROM word"); got != "1 2" {
		t.Errorf("it has %q", got)
	}
}

func TestAPromotedStandbysSequenceStandsWhereItsPrimaryHadLoggedItAheadTo(t *testing.T) {
	primary := instance(t)
	statement(t, primary, "CREATE SEQUENCE token; CREATE TABLE word (n BIGINT)")
	s := standby(t, primary, "ledger-standby")
	if err := primary.WaitForStandby(t.Context(), "ledger-standby"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		statement(t, primary, "INSERT INTO word VALUES (nextval('token'))")
	}
	if err := errors.Join(primary.Crash(t.Context()), s.Promote(t.Context())); err != nil {
		t.Fatal(err)
	}
	// The first value logs the position 32 values ahead of it, and nothing more is logged before those are used up.
	if got := value[string](t, s, "SELECT last_value::text FROM token"); got != "33" {
		t.Errorf("5 values had been taken, and the promoted sequence stands at %s", got)
	}
}
