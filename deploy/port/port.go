// Package port hands out free TCP ports of the loopback address. A port is chosen below the range from which the kernel
// takes the ports of outgoing connections, so that it is still free when a process that stopped wants it back; and it
// stays reserved among all stacks of this machine, so that several runs at once do not take one another's.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Reservation is one TCP port on 127.0.0.1. Release gives it back; the end of the process does so as well.
type Reservation struct {
	// Number is the port, 1 to 65535.
	Number int
	hold   net.Listener
}

// lowest is the first port that is tried: below it live the well-known services.
const lowest = 10_000

// attempts bounds the search for a free port.
const attempts = 500

// Reserve finds a port on which nothing listens and that no other Reserve holds. Whoever binds it may still find it
// taken by a stranger and must then ask for another.
func Reserve() (*Reservation, error) {
	low, high := bounds(ephemeralStart())
	for range attempts {
		n := low + rand.IntN(high-low)
		r, err := reserve(n)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			return nil, fmt.Errorf("reserve a port: %w", err)
		}
	}
	return nil, fmt.Errorf("find a free port between %d and %d: all %d that were tried are taken; stop what listens there", low, high, attempts)
}

// reserve takes port n: the mark among ourselves is a socket in the abstract namespace, which is as wide as the port
// numbers are (one network namespace) and vanishes with its process, however that ends.
func reserve(n int) (*Reservation, error) {
	hold, err := net.Listen("unix", "@fenceproof-port-"+strconv.Itoa(n))
	if err != nil {
		return nil, err
	}
	probe, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(n))
	if err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	if err := probe.Close(); err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	return &Reservation{Number: n, hold: hold}, nil
}

// Address is host and port, as a listener takes them.
func (r *Reservation) Address() string { return "127.0.0.1:" + strconv.Itoa(r.Number) }

// Release gives the port back. Releasing twice is harmless.
func (r *Reservation) Release() error {
	if err := r.hold.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("release port %d: %w", r.Number, err)
	}
	return nil
}

// bounds is the half-open range of ports to choose from, given the first ephemeral one.
func bounds(ephemeral int) (low, high int) {
	if ephemeral >= lowest+2_000 {
		return lowest, ephemeral
	}
	return 1_024, max(ephemeral, 2_048) // a machine with an unusually wide ephemeral range
}

// ephemeralStart is the first port that the kernel gives to outgoing connections; Linux's default where it cannot be read.
func ephemeralStart() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		if f := strings.Fields(string(text)); len(f) == 2 {
			if n, err := strconv.Atoi(f[0]); err == nil {
				return n
			}
		}
	}
	return 32_768
}
