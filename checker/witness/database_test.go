package witness

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"fenceproof/checker/history"
)

func TestEveryCommitOfConcurrentWritersIsRecordedOnceAndInOrder(t *testing.T) {
	w := newDatabase(t, shared, randomTables)
	d := w.attach(w.config())
	var committed atomic.Int64
	w.write(7, 8, 150, nil, &committed).Wait()
	w.drain(d)
	w.agrees("narrow", "wide", "counter", "numbered")
	w.numbersAscend()
	if undone := w.replayed()["undone"]; len(undone) != 0 {
		t.Errorf("rows that were rolled back were recorded: %v", undone)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.page.keptPlace(t)
	if !w.page.whole(history.PayDB) {
		t.Error("a witness that kept its place to the end did not mark its history as complete")
	}
	var left int
	if err := w.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database())
		+ (SELECT count(*) FROM pg_publication)`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d slots and publications were left behind (%v)", left, err)
	}
}

// numbersAscend fails unless the numbers that writers took one after the other were recorded in that order, all of them.
func (w *watched) numbersAscend() {
	w.Helper()
	next := 1
	for _, e := range w.page.all(history.OpCommit) {
		for _, c := range e.Changes {
			if c.Table != "numbered" {
				continue
			}
			if c.New["id"] != strconv.Itoa(next) {
				w.Fatalf("event %d: number %s was recorded where %d was due", e.I, c.New["id"], next)
			}
			next++
		}
	}
	if next == 1 {
		w.Fatal("nobody took a number: the test tests nothing")
	}
}

func TestRowsThatWereThereAreRecordedFirstAndCommitsGoOnFromThem(t *testing.T) {
	w := newDatabase(t, shared, randomTables)
	var committed atomic.Int64
	w.write(11, 4, 40, nil, &committed).Wait()
	stop := make(chan struct{})
	writers := w.write(12, 4, 1<<30, stop, &committed) // they write while the witness comes
	defer writers.Wait()
	ended := sync.OnceFunc(func() { close(stop) })
	defer ended()
	d := w.attach(w.config())
	after := committed.Load()
	w.until("50 more transactions have committed", func() bool { return committed.Load() >= after+50 })
	ended()
	writers.Wait()
	w.drain(d)
	w.agrees("narrow", "wide", "counter", "numbered")
	first := w.page.all(history.OpCommit)[0]
	if first.Msg != Snapshot || first.XID != 0 || first.LSN == "" {
		t.Errorf("the first event is %q with XID %d at %q, not a snapshot", first.Msg, first.XID, first.LSN)
	}
	for _, e := range w.page.all(history.OpCommit)[1:] {
		if e.Msg != "" || e.XID == 0 {
			t.Fatalf("event %d is %q with XID %d, not a transaction", e.I, e.Msg, e.XID)
		}
	}
}

func TestTablesThatAreNoEvidenceAreLeftOut(t *testing.T) {
	w := newDatabase(t, shared, `CREATE TABLE schema_history (id int); CREATE TABLE t (id int PRIMARY KEY);
		CREATE SCHEMA other; CREATE TABLE other.t (id int); INSERT INTO schema_history VALUES (1)`)
	cfg := w.config()
	cfg.Ignore = []string{"schema_history"}
	d := w.attach(cfg)
	w.exec("INSERT INTO schema_history VALUES (2)")
	w.exec("TRUNCATE schema_history")
	w.exec("WITH a AS (INSERT INTO t VALUES (1)), b AS (INSERT INTO other.t VALUES (2)) INSERT INTO schema_history VALUES (3)")
	w.drain(d)
	w.page.keptPlace(t)
	commits := w.page.all(history.OpCommit)
	if len(commits) != 1 || len(commits[0].Changes) != 2 {
		t.Fatalf("recorded %+v, want one transaction with two changes", commits)
	}
	names := map[string]bool{commits[0].Changes[0].Table: true, commits[0].Changes[1].Table: true}
	if !names["t"] || !names["other.t"] {
		t.Errorf("the tables are named %v", names)
	}
}

func TestEveryValueIsTheTextThatTheDatabaseShows(t *testing.T) {
	w := newDatabase(t, shared, `CREATE TABLE v (id bigint PRIMARY KEY, token bigint, text text, fixed char(3), raw bytea,
		num numeric, float float8, at timestamptz, on_day date, span interval, yes boolean, uid uuid, doc jsonb, list int[],
		twice bigint GENERATED ALWAYS AS (id * 2) STORED)`)
	insert := `INSERT INTO v VALUES
		(1, 9223372036854775807, E'ä€😀\t"\\\n', 'EUR', '\x00ff10', 0.10, 0.1, '2026-03-29 01:59:59.123456+00', '2026-02-28', '1 mon -2 days 03:04:05.6', true, '0198c0de-0000-7000-8000-000000000001', '{"a": [1, null]}', '{1,NULL,3}'),
		(2, 9007199254740993, '', 'X', '', 123456789012345678901234567890.000001, 'Infinity', 'infinity', '-infinity', '0', false, NULL, 'null', '{}'),
		(3, -9223372036854775808, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`
	w.exec(insert)
	d := w.attach(w.config()) // the rows come by the snapshot,
	w.exec("UPDATE v SET token = token - 1 WHERE token > 0")
	w.exec("DELETE FROM v")
	w.exec(insert) // and now by the log
	w.drain(d)
	now := w.rowsNow("v")
	for id := range now {
		delete(now[id], "twice") // PostgreSQL 16 does not log generated columns
	}
	then := w.replayed()["v"]
	for id, row := range now {
		for column, value := range row {
			if then[id][column] != value {
				t.Errorf("row %s: %s was recorded as %q and is %q", id, column, then[id][column], value)
			}
		}
		if len(row) != len(then[id]) {
			t.Errorf("row %s has %d values that are not NULL, and %d were recorded", id, len(row), len(then[id]))
		}
	}
	if first := w.page.all(history.OpCommit)[0].Changes[0].New; first["token"] != "9223372036854775807" || first["num"] != "0.10" {
		t.Errorf("the snapshot holds %v", first)
	}
}

func TestALargeValueThatAnUpdateLeavesAloneIsInItsNewRow(t *testing.T) {
	w := newDatabase(t, shared, "CREATE TABLE big (id int PRIMARY KEY, v int, body text); ALTER TABLE big ALTER body SET STORAGE EXTERNAL")
	d := w.attach(w.config())
	body := strings.Repeat("large ", 20_000)
	w.exec("INSERT INTO big VALUES (1, 1, $1)", body)
	w.exec("UPDATE big SET v = 2")
	w.drain(d)
	commits := w.page.all(history.OpCommit)
	if got := commits[1].Changes[0]; got.New["v"] != "2" || got.New["body"] != body || got.Old["body"] != body {
		t.Errorf("the update has %d bytes before and %d after, want %d", len(got.Old["body"]), len(got.New["body"]), len(body))
	}
}

func TestAWatermarkComesAfterEveryCommitThatItCovers(t *testing.T) {
	w := newDatabase(t, shared, "CREATE TABLE t (id bigint PRIMARY KEY)")
	d := w.attach(w.config())
	var mu sync.Mutex
	knownAt := map[string]int64{} // when the client knew that the row was committed
	var writers sync.WaitGroup
	for n := range 8 {
		writers.Go(func() {
			for i := range 200 {
				id := n*1000 + i
				w.exec("INSERT INTO t VALUES ($1)", id)
				mu.Lock()
				knownAt[strconv.Itoa(id)] = w.page.Now()
				mu.Unlock()
				if i%50 == n {
					w.drain(d) // so that there are many watermarks
				}
			}
		})
	}
	writers.Wait()
	w.drain(d)
	recorded := map[string]bool{}
	checked := 0
	for _, e := range w.page.all("") {
		switch e.Op {
		case history.OpCommit:
			for _, c := range e.Changes {
				recorded[c.New["id"]] = true
			}
		case history.OpWatermark:
			if e.Covers > e.T {
				t.Fatalf("event %d was recorded at %d and covers the future, %d", e.I, e.T, e.Covers)
			}
			for id, at := range knownAt {
				if at <= e.Covers {
					checked++
					if !recorded[id] {
						t.Fatalf("event %d covers %d, but row %s, committed by %d, is not recorded yet", e.I, e.Covers, id, at)
					}
				}
			}
		}
	}
	if checked == 0 || len(recorded) != 1600 {
		t.Fatalf("%d commits were checked against watermarks, %d recorded of 1600", checked, len(recorded))
	}
}

func TestAHugeTransactionIsOneEvent(t *testing.T) {
	w := newDatabase(t, shared, "CREATE TABLE t (id bigint PRIMARY KEY, v text)")
	d := w.attach(w.config())
	w.exec("INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 100000) n")
	w.drain(d)
	commits := w.page.all(history.OpCommit)
	if len(commits) != 1 || len(commits[0].Changes) != 100_000 {
		t.Fatalf("%d events were recorded, want one with 100,000 changes", len(commits))
	}
	for i, c := range commits[0].Changes {
		if c.New["id"] != strconv.Itoa(i+1) {
			t.Fatalf("change %d is of row %s", i+1, c.New["id"])
		}
	}
}

func TestATransactionThatIsTooLongForOneEventCostsThePlace(t *testing.T) {
	for _, c := range []struct{ name, sql string }{
		{"many rows", "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 20000) n"},
		{"one large value", fmt.Sprintf("INSERT INTO t VALUES (1, repeat('x', %d))", history.MaxLine)},
		{"a value that grows in JSON", fmt.Sprintf("INSERT INTO t VALUES (1, repeat(E'\\x01', %d))", history.MaxLine/6+1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newDatabase(t, shared, "CREATE TABLE t (id bigint PRIMARY KEY, v text)")
			d := w.attach(w.config())
			w.exec(c.sql)
			w.refuses(d, "bytes that one event may have")
			if got := w.page.all(history.OpCommit); len(got) != 0 {
				t.Errorf("a part of the transaction was recorded: %d events", len(got))
			}
			if _, err := Attach(t.Context(), w.config(), w.page); err == nil || !strings.Contains(err.Error(), "bytes that one event may have") {
				t.Errorf("a witness attached to rows that are too many for one event: %v", err)
			}
		})
	}
}

// refuses waits until the witness has lost its place for the reason given, and checks that it says so ever after.
func (w *watched) refuses(d *Database, because string) {
	w.Helper()
	if e := w.page.awaitLost(w.T); !strings.Contains(e.Msg, because) || e.Proc != "paydb" {
		w.Errorf("%s lost its place because %q, want %q", e.Proc, e.Msg, because)
	}
	if err := d.Drain(w.Context()); !errors.Is(err, ErrLost) {
		w.Errorf("Drain of a witness that lost its place returned %v", err)
	}
	if err := d.Close(context.Background()); !errors.Is(err, ErrLost) {
		w.Errorf("Close of a witness that lost its place returned %v", err)
	}
	if w.page.whole(history.PayDB) {
		w.Error("a witness that lost its place marked its history as complete")
	}
	if got := len(w.page.all(history.OpLostPlace)); got != 1 {
		w.Errorf("the place was lost %d times", got)
	}
}

func TestATableWithoutWholeOldRowsCostsThePlaceAtItsFirstUpdate(t *testing.T) {
	w := newDatabase(t, shared, "CREATE TABLE t (id bigint PRIMARY KEY)")
	d := w.attach(w.config())
	w.exec("CREATE TABLE late (id bigint PRIMARY KEY, v int); INSERT INTO late VALUES (1, 1)")
	w.drain(d) // an insert leaves nothing out
	w.exec("UPDATE late SET v = 2")
	w.refuses(d, "attach the witness after the migrations")
}

func TestATruncateCostsThePlace(t *testing.T) {
	w := newDatabase(t, shared, "CREATE TABLE t (id bigint PRIMARY KEY); INSERT INTO t VALUES (1)")
	d := w.attach(w.config())
	w.exec("TRUNCATE t")
	w.refuses(d, "table t was truncated")
}

func TestTheNextEpochsWitnessGoesOnInTheSameHistory(t *testing.T) {
	w := newDatabase(t, shared, "CREATE TABLE t (id bigint PRIMARY KEY)")
	d := w.attach(w.config())
	w.exec("INSERT INTO t VALUES (1)")
	if err := d.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.page.whole(history.PayDB) {
		t.Error("the history was marked as complete though an epoch follows")
	}
	w.exec("INSERT INTO t VALUES (2)") // between the epochs: only the snapshot has it
	cfg := w.config()
	cfg.Epoch = 1
	d = w.attach(cfg)
	w.exec("INSERT INTO t VALUES (3)")
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, e := range w.page.all(history.OpCommit) {
		for _, c := range e.Changes {
			seen = append(seen, strconv.Itoa(e.Epoch)+":"+c.New["id"]+e.Msg)
		}
	}
	if got := strings.Join(seen, " "); got != "0:1 1:1snapshot 1:2snapshot 1:3" {
		t.Errorf("recorded %s", got)
	}
	if !w.page.whole(history.PayDB) {
		t.Error("the last epoch's end did not complete the history")
	}
}
