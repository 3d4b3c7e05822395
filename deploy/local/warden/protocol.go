// Package warden makes sure that nothing of a run outlives it. The warden is a small process between the harness and
// everything that the harness starts: all of it are the warden's children, the orphans of those become its children too,
// and a socket to the harness tells it when the harness is gone, however it went. Then it kills what it started, and
// removes what a killed process cannot remove itself.
package warden

import (
	"fmt"

	"fenceproof/deploy/process"
)

// Kind says how a leftover is removed.
type Kind string

// The kinds of leftovers.
const (
	// Folder is deleted with everything in it.
	Folder Kind = "folder"
	// ServerData is a PostgreSQL data directory: its server is killed, its shared memory and the directory removed.
	ServerData Kind = "server-data"
	// Mount is a mount point: it is unmounted.
	Mount Kind = "mount"
	// Cgroup is the folder of a cgroup (v2): its processes are killed, it is removed.
	Cgroup Kind = "cgroup"
)

// Leftover is something that outlives processes and must not outlive the run.
type Leftover struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path"`
}

func (l Leftover) String() string { return fmt.Sprintf("%s %s", l.Kind, l.Path) }

// operation is what the harness asks of the warden.
type operation string

const (
	opStart   operation = "start"   // start a process; the answer has its pid
	opSignal  operation = "signal"  // send a signal to a process that was started and not yet reaped
	opGuard   operation = "guard"   // remember a leftover
	opRelease operation = "release" // forget a leftover: it was removed, or is to be kept
	opMount   operation = "mount"   // mount a volume, where the warden has a mount namespace of its own
	opClose   operation = "close"   // end everything, answer, end
)

// request is one line from the harness to the warden.
type request struct {
	ID       int64            `json:"id"`
	Op       operation        `json:"op"`
	Command  *process.Command `json:"command,omitempty"`
	Pid      int              `json:"pid,omitempty"`
	Signal   int              `json:"signal,omitempty"`
	Leftover *Leftover        `json:"leftover,omitempty"`
	Volume   *Volume          `json:"volume,omitempty"`
}

// message is one line from the warden to the harness: an answer to the request with the same ID, or, with ID 0, the
// greeting or the news that a process has ended.
type message struct {
	ID    int64  `json:"id"`
	Error string `json:"error,omitempty"`
	// Pid is the process that was started, or that Status is about.
	Pid int `json:"pid,omitempty"`
	// Ended: the process to be signalled has been reaped.
	Ended bool `json:"ended,omitempty"`
	// Status says how a process ended.
	Status string `json:"status,omitempty"`
	// Cgroup is the greeting's: the cgroup that everything is started in, empty where none can be made.
	Cgroup string `json:"cgroup,omitempty"`

	proc *proc // made by the harness when it takes in the answer to a start
}
