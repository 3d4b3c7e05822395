package etcdtest

import (
	"context"
	"errors"
	"os"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/janitor"
)

// janitorName is the name under which the test's own binary runs again as the janitor of one member or cluster.
const janitorName = "fenceproof-test-etcd-janitor"

func init() { janitor.Serve(janitorName, sweep) }

// sweep removes the members and their home, which comes first.
func sweep(ctx context.Context, args []string) error {
	var errs []error
	for _, folder := range args[1:] {
		errs = append(errs, etcd.Demolish(ctx, folder))
	}
	return errors.Join(append(errs, os.RemoveAll(args[0]))...)
}
