package pgstore_test

import (
	"testing"

	"fenceproof/system/lock/locktest"
	"fenceproof/system/lock/pgstore"
)

func TestTheContractIsRedOnBrokenStores(t *testing.T) { locktest.RunBroken(t) }

// openStore opens what the tests test.
var openStore = locktest.As(pgstore.Open)
