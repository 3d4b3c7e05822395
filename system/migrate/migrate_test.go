package migrate

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"

	"github.com/jackc/pgx/v5"
)

var server *postgres.Instance

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(i *postgres.Instance) { server = i }))
}

var databases atomic.Int32

// database is the URL of an empty database of the test's own.
func database(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("history%d", databases.Add(1))
	if err := server.CreateDatabase(t.Context(), name, "app"); err != nil {
		t.Fatal(err)
	}
	return server.URL("app", name)
}

// history is a folder of migrations, by name.
func history(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func up(t *testing.T, url string, files map[string]string) error {
	return Up(t.Context(), url, history(files), slog.New(slog.DiscardHandler))
}

// tables lists the tables of the database, goose's own aside.
func tables(t *testing.T, url string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var names []string
	err = c.QueryRow(t.Context(), `SELECT array_agg(tablename::text ORDER BY tablename) FROM pg_tables
		WHERE schemaname = 'public' AND tablename <> $1`, table).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func TestSeveralThatMigrateAtOnceWaitForOneAnother(t *testing.T) {
	url := database(t)
	files := map[string]string{
		"V1__create_a.sql":  `CREATE TABLE a (n INT); SELECT pg_sleep(0.1);`,
		"V2__create_b.sql":  `CREATE TABLE b (n INT);`,
		"V10__create_c.sql": `CREATE FUNCTION f() RETURNS INT LANGUAGE sql AS $$ SELECT 1; $$; CREATE TABLE c (n INT DEFAULT f());`,
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := up(t, url, files); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := tables(t, url); got != "a b c" {
		t.Errorf("the tables are %s", got)
	}
}

func TestAMigrationThatFailsLeavesTheEarlierOnesAndNothingOfItsOwn(t *testing.T) {
	url := database(t)
	files := map[string]string{
		"V1__create_a.sql": `CREATE TABLE a (n INT);`,
		"V2__create_b.sql": `CREATE TABLE b (n INT); CREATE TABLE a (n INT);`,
	}
	if err := up(t, url, files); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("got %v", err)
	}
	if got := tables(t, url); got != "a" {
		t.Errorf("the tables are %s, want a alone", got)
	}
	files["V2__create_b.sql"] = `CREATE TABLE b (n INT);`
	if err := up(t, url, files); err != nil {
		t.Error(err)
	}
	if got := tables(t, url); got != "a b" {
		t.Errorf("after the correction the tables are %s", got)
	}
}

func TestAFileThatIsNamedOtherwiseIsRefusedBeforeAnythingIsApplied(t *testing.T) {
	url := database(t)
	for _, name := range []string{"V2_create_b.sql", "V02__create_b.sql", "v2__create_b.sql", "V2__Create_B.sql", "V2__create_b.sql.bak", "2__create_b.sql"} {
		err := up(t, url, map[string]string{"V1__create_a.sql": `CREATE TABLE a (n INT);`, name: `CREATE TABLE b (n INT);`})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := up(t, url, nil); err == nil {
		t.Error("an empty history was applied")
	}
	if got := tables(t, url); got != "" {
		t.Errorf("the tables are %s", got)
	}
}
