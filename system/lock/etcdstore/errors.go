package etcdstore

import (
	"errors"
	"fmt"

	"fenceproof/system/lock"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errNoLease is a fact: the lease has ended, and the keys that it held with it.
var errNoLease = errors.New("the lease has ended")

// errStillThere says that the leader knows of no such lease while the key that it holds is there. A leader that was elected
// just now may not have heard yet of what the one before it had granted: whether anything has ended is not known.
var errStillThere = fmt.Errorf("%w: etcd knows of no lease and still has its key", lock.ErrUnavailable)

// outcome says in terms of the contract what became of a call. What etcd did not answer, or answered with "not now", is
// ErrUnavailable: nothing happened, or nobody knows (rule 7). What is left is a mistake in this package.
func outcome(err error) error {
	if err == nil || errors.Is(err, errNoLease) {
		return err
	}
	known := rpctypes.Error(err)
	if errors.Is(known, rpctypes.ErrLeaseNotFound) {
		return errNoLease
	}
	if errors.Is(known, rpctypes.ErrCompacted) { // the revision that was asked for has just gone, and a next question asks for a later one
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	switch code(known) {
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound, codes.AlreadyExists, codes.Unimplemented:
		return fmt.Errorf("etcd refused the request: %w", err)
	}
	return fmt.Errorf("%w: %w", lock.ErrUnavailable, known)
}

// everywhere tells whether another member would answer the same: it is the cluster that has no space.
func everywhere(err error) bool {
	return errors.Is(err, rpctypes.ErrNoSpace)
}

func code(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}
