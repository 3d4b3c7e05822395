package port

import (
	"net"
	"strconv"
	"testing"
)

func TestAReservedPortIsFreeForItsOwnerAndForNobodyElse(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		r, err := Reserve()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if seen[r.Number] {
			t.Fatalf("port %d was handed out twice", r.Number)
		}
		seen[r.Number] = true
		if _, err := reserve(r.Number); err == nil {
			t.Errorf("port %d was reserved twice", r.Number)
		}
		l, err := net.Listen("tcp", r.Address())
		if err != nil {
			t.Errorf("the owner cannot listen: %v", err)
			continue
		}
		l.Close()
		if start := ephemeralStart(); r.Number >= start && start > lowest {
			t.Errorf("port %d is among those of outgoing connections, from %d", r.Number, start)
		}
	}
}

func TestAPortThatSomebodyListensOnIsNotHandedOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := reserve(l.Addr().(*net.TCPAddr).Port); err == nil {
		t.Error("a taken port was reserved")
	}
}

func TestAReleasedPortCanBeReservedAgain(t *testing.T) {
	r, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Release(); err != nil {
			t.Fatal(err)
		}
	}
	again, err := reserve(r.Number)
	if err != nil {
		t.Fatalf("port %s: %v", strconv.Itoa(r.Number), err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestAnUnusualEphemeralRangeStillLeavesPorts(t *testing.T) {
	for _, ephemeral := range []int{32_768, 12_000, 11_000, 1_024} {
		low, high := bounds(ephemeral)
		if low < 1_024 || high-low < 1_000 || high > 65_535 {
			t.Errorf("from %d: %d to %d", ephemeral, low, high)
		}
	}
}
