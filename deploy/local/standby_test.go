package local

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// withStandby boots the lock server, lockdb and a standby of it, and gives lockdb a table for words.
func withStandby(t *testing.T, kind Standby) *Stack {
	t.Helper()
	c := config(t)
	c.Executors, c.LocksOnly, c.Standby = 0, true, kind
	s := boot(t, c)
	for _, table := range []string{"word", "noise"} {
		if _, err := say(t, s, "CREATE TABLE "+table+" (text TEXT)"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// starve has nothing more reach the standby, while somebody writes who waits for no standby, as the log's witness does: a
// server that nobody writes to is hardly ever ahead.
func starve(t *testing.T, s *Stack) {
	t.Helper()
	d, err := s.database(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), d.SuperURL(LockDB))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if _, err := c.Exec(t.Context(), "SET synchronous_commit = local"); err != nil {
		t.Fatal(err)
	}
	starved := make(chan error, 1)
	go func() { starved <- s.StarveStandby(t.Context()) }()
	for {
		select {
		case err := <-starved:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
		if _, err := c.Exec(t.Context(), "INSERT INTO noise VALUES ('x')"); err != nil {
			t.Fatal(err)
		}
	}
}

// say runs a statement over the lock server's link to lockdb, on a connection of its own.
func say(t *testing.T, s *Stack, sql string) (text string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.databaseURL(LockServer, LockDB))
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close(context.Background()) }()
	rows, err := c.Query(ctx, sql)
	if err != nil {
		return "", err
	}
	for rows.Next() {
		if err := rows.Scan(&text); err != nil {
			return "", err
		}
	}
	return text, rows.Err()
}

// failOver kills lockdb and has its standby serve in its place.
func failOver(t *testing.T, s *Stack) {
	t.Helper()
	if err := s.CutOffLockDB(t.Context()); err != nil {
		t.Fatal(err)
	}
	old, err := s.Process(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PromoteStandby(t.Context()); err == nil {
		t.Fatal("a standby was promoted beside a lockdb that runs")
	}
	if err := old.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.PromoteStandby(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.ReconnectLockDB(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := s.Process(LockDB); err != nil || now.Pid() == old.Pid() || old.Running() {
		t.Fatalf("lockdb is process %d after the promotion and was %d; %v", now.Pid(), old.Pid(), err)
	}
}

const allWords = "SELECT coalesce(string_agg(text, ' ' ORDER BY text), '') FROM word"

func TestACommitThatTheStandbyDoesNotHaveIsNotAnswered(t *testing.T) {
	s := withStandby(t, SynchronousStandby)
	if _, err := say(t, s, "INSERT INTO word VALUES ('answered')"); err != nil {
		t.Fatal(err)
	}
	starve(t, s)
	answer := make(chan error, 1)
	go func() { // ends with its connection, when the link leads elsewhere
		_, err := say(t, s, "INSERT INTO word VALUES ('unanswered')")
		answer <- err
	}()
	if err := s.AwaitWaitingCommit(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := s.database(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a commit that waits for the standby", func() bool { return count(t, d, "wait_event = 'SyncRep' AND query LIKE '%unanswered%'") == 1 })
	failOver(t, s)
	if err := <-answer; err == nil {
		t.Error("it was answered, and only the server that was lost had it")
	}
	if got, err := say(t, s, allWords); err != nil || got != "answered" {
		t.Errorf("the promoted server has %q: %v", got, err)
	}
	admin, err := s.AdminURL(LockServer)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a lock server that is ready again", func() bool { return ready(t.Context(), admin+"/readyz") == nil })
	if died := s.Died(); len(died) > 0 {
		t.Errorf("what was killed is told to have died by itself: %v", died)
	}
}

// waiting is how many commits wait for a standby.
func waiting(t *testing.T, d *database) int { t.Helper(); return count(t, d, "wait_event = 'SyncRep'") }

// count is how many of a server's backends are such.
func count(t *testing.T, d *database, such string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.SuperURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE "+such).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAStandbyThatNobodyWaitsForLacksWhatWasAnsweredWhileItWasCutOff(t *testing.T) {
	s := withStandby(t, AsynchronousStandby)
	var lost []*database
	for round := range 2 {
		if _, err := say(t, s, fmt.Sprintf("INSERT INTO word VALUES ('kept-%d')", round)); err != nil {
			t.Fatal(err)
		}
		d, standby, err := s.pair()
		if err != nil {
			t.Fatal(err)
		}
		kept := fmt.Sprintf("SELECT count(*) = 1 FROM word WHERE text = 'kept-%d'", round)
		await(t, "the standby to have what was written before", func() bool { return isSo(t, standby, kept) })
		starve(t, s)
		if _, err := say(t, s, "INSERT INTO word VALUES ('lost')"); err != nil {
			t.Fatal(err)
		}
		if !isSo(t, d, "SELECT count(*) = 1 FROM word WHERE text = 'lost'") {
			t.Fatal("it was answered and is not there")
		}
		failOver(t, s)
		if err := watched(t, s, s.OpenStandby); err != nil {
			t.Fatal(err)
		}
		lost = append(lost, d)
		if err := s.OpenStandby(t.Context()); err == nil {
			t.Fatal("lockdb got a second standby")
		}
	}
	if got, err := say(t, s, allWords); err != nil || got != "kept-0 kept-1" {
		t.Errorf("the server that was promoted last has %q: %v", got, err)
	}
	// A long run loses many servers. The latest stays for whoever wants to see what it had.
	if _, err := os.Lstat(lost[0].DataFolder()); !os.IsNotExist(err) {
		t.Errorf("the data of the server that was lost first takes room still: %v", err)
	}
	if _, err := os.Lstat(lost[1].DataFolder()); err != nil {
		t.Errorf("nothing is left of the server that was lost last: %v", err)
	}
}

// A standby that is fed answers in a moment. What waits for it then is not at rest: the first is acknowledged, the second gets
// the row that it waited for, and it would commit behind the back of whoever has read the log to its end.
func TestNothingIsCommittedBehindTheCutThatALossBeginsWith(t *testing.T) {
	s := withStandby(t, SynchronousStandby)
	if _, err := say(t, s, "INSERT INTO word VALUES ('first')"); err != nil {
		t.Fatal(err)
	}
	d, err := s.database(LockDB)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Link(LinkName(LockDBStandby, LockDB))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Slow(t.Context(), Both, Slowness{Latency: time.Second}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	begin := func(sql string) {
		go func() { _, err := say(t, s, sql); ended <- err }() // ends with its connection, when the stack is closed
	}
	begin("UPDATE word SET text = 'second' WHERE text = 'first'")
	await(t, "a commit that waits for the standby", func() bool { return waiting(t, d) == 1 })
	begin("DELETE FROM word WHERE text <> 'kept'")
	await(t, "a statement that waits for its row", func() bool { return count(t, d, "wait_event_type = 'Lock'") == 1 })
	if err := s.CutOffLockDB(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, d, "usename = 'lockapp'"); n != 0 {
		t.Errorf("%d of the lock server's statements may still commit", n)
	}
	// The second may have got the row, and committed, before it was ended in its turn: whoever reads the log now has that.
	rows := map[string]bool{}
	for _, row := range []string{"{first}", "{second}", "{}"} {
		rows[row] = isSo(t, d, "SELECT coalesce(array_agg(text), '{}') = '"+row+"' FROM word")
	}
	if err := s.FeedStandby(t.Context()); err != nil {
		t.Fatal(err)
	}
	for row, was := range rows {
		if is := isSo(t, d, "SELECT coalesce(array_agg(text), '{}') = '"+row+"' FROM word"); is != was {
			t.Errorf("that the rows are %s was %t at the cut and is %t, although nobody could change them", row, was, is)
		}
	}
	if l, err = s.Link(LinkName(LockServer, LockDB)); err != nil {
		t.Fatal(err)
	}
	if err := l.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("a statement was answered past the cut")
		}
	}
}

// watched does something while somebody looks for processes that have ended by themselves, as a run does all the while.
func watched(t *testing.T, s *Stack, do func(context.Context) error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do(t.Context()) }()
	for {
		if died := s.Died(); len(died) > 0 {
			t.Errorf("these are told to have died by themselves: %v", died)
			return <-done
		}
		select {
		case err := <-done:
			return err
		case <-time.After(look):
		}
	}
}

// isSo asks a server; one that does not know yet what the question is about says no.
func isSo(t *testing.T, d *database, question string) (yes bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, d.SuperURL(LockDB))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	return c.QueryRow(ctx, question).Scan(&yes) == nil && yes
}

func TestAStandbyThatCannotBeMeantIsRefused(t *testing.T) {
	for _, c := range []Config{{Backend: BackendEtcd, Standby: SynchronousStandby}, {Standby: "quick"}} {
		if err := c.checkStandby(); err == nil {
			t.Errorf("backend %q with standby %q was accepted", c.Backend, c.Standby)
		}
	}
}
