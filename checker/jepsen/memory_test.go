package jepsen

import (
	"fmt"
	"strings"
	"testing"
)

// However many names a history has, they do not take all memory; a name that comes again takes none.
func TestAHistoryOfMoreNamesThanThereIsRoomForIsRefused(t *testing.T) {
	var few, many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&few, "{:type :invoke :f :acquire :process %d :key \"a key that comes again\"}\n", i)
		fmt.Fprintf(&many, "{:type :invoke :f :acquire :process %d :key \"a key that is %d\"}\n", i, i)
	}
	if _, err := readAll(strings.NewReader(few.String()), ImportOptions{}, 10_000); err != nil {
		t.Error(err)
	}
	if _, err := readAll(strings.NewReader(many.String()), ImportOptions{}, 10_000); err == nil || !strings.Contains(err.Error(), "more than 10000 bytes of names") {
		t.Error(err)
	}
}
