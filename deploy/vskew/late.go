package vskew

import "errors"

// ErrLate says that one of the threads of a process did not stop in time: the machine is busy, or the thread sleeps in the kernel.
var ErrLate = errors.New("not all of its threads stopped")
