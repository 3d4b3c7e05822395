package wiretap

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// gone tells whether the peer of c has closed or reset its side, read data or not. It never blocks.
func gone(c syscall.RawConn) bool { return poll(c, unix.POLLRDHUP) }

// stale tells whether an idle connection has become useless: closed, reset, or with bytes that nobody asked for.
func stale(c syscall.RawConn) bool { return poll(c, unix.POLLRDHUP|unix.POLLIN) }

// poll tells whether any of events, an error or a hang-up stands on c now.
func poll(c syscall.RawConn, events int16) bool {
	hit := true
	err := c.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds, 0)
		for err == unix.EINTR {
			n, err = unix.Poll(fds, 0)
		}
		hit = err != nil || n > 0
	})
	return hit || err != nil
}
