package postgrestest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestATestGetsAServerThatTakesWrites(t *testing.T) {
	i := Start(t)
	if err := i.CreateDatabase(t.Context(), "paydb", "payapp"); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), i.URL("payapp", "paydb"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var n int
	if _, err := c.Exec(t.Context(), "CREATE TABLE account (id int)"); err != nil {
		t.Fatal(err)
	}
	if err := c.QueryRow(t.Context(), "INSERT INTO account VALUES (7) RETURNING id").Scan(&n); err != nil || n != 7 {
		t.Fatalf("got %d, %v", n, err)
	}
}
