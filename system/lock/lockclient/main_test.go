package lockclient

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"

	"go.uber.org/goleak"
)

var database *postgres.Instance

// holderOf names the variable that makes the test's binary be a holder, for the lock-server at that URL.
const holderOf = "HOLDER_OF"

func TestMain(m *testing.M) {
	if url := os.Getenv(holderOf); url != "" {
		if err := holder(url); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	status := postgrestest.Run(m, func(i *postgres.Instance) { database = i })
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// holder is a process that holds one lease: it says so, and for each line that it reads it tells how it stands with it.
func holder(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := New(Options{BaseURL: url, OwnerID: "holder", SessionTTL: time.Second, Margin: 0.3, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	l, err := c.Acquire(ctx, "k", time.Second, 0)
	if err != nil {
		return err
	}
	fmt.Println("token", l.Token())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println("held:", l.CheckStillHeld(0) == nil)
	}
	return c.Close(ctx)
}
