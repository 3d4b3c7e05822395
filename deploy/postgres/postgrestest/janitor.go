package postgrestest

import (
	"context"
	"errors"
	"os"

	"fenceproof/deploy/janitor"
	"fenceproof/deploy/postgres"
)

// janitorName is the name under which the test's own binary runs again as the janitor of one server.
const janitorName = "fenceproof-test-janitor"

func init() { janitor.Serve(janitorName, sweep) }

// sweep removes the server, whose data folder comes first, and its home.
func sweep(ctx context.Context, args []string) error {
	return errors.Join(postgres.Demolish(ctx, args[0]), os.RemoveAll(args[1]))
}
