package etcdstore_test

import (
	"testing"

	"fenceproof/system/lock/etcdstore"
	"fenceproof/system/lock/locktest"
)

func TestTheContractIsRedOnBrokenStores(t *testing.T) { locktest.RunBroken(t) }

// openStore opens what the tests test.
var openStore = locktest.As(etcdstore.Open)
