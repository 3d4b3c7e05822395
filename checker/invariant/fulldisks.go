package invariant

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// fullDisks counts what disks that were full were good for: that one was, the nemesis' word is taken for; what the system
// made of it, the wiretap's.
type fullDisks struct {
	seen    int64 // disks of databases that were seen to be full
	refused int64 // calls that were answered that a store is unavailable, by whoever rests on a full one

	full map[int]contract.Process // by window, whose disk is full
}

func newFullDisks() fullDisks { return fullDisks{full: map[int]contract.Process{}} }

func (f *fullDisks) hear(e *history.Event) {
	switch {
	case e.W == history.Wiretap && e.Stage == history.Answered && e.Status == 503 && len(f.full) > 0:
		if link, err := contract.ParseLink(e.Link); err == nil && f.restsOnAFullOne(link.To) {
			f.refused++
		}
	case e.W != history.Nemesis || e.Op != "disk-full":
	case e.Phase == "seen":
		f.seen++
		f.full[e.Window] = contract.Process(e.Target)
	case e.Phase == "healed":
		delete(f.full, e.Window)
	}
}

// restsOnAFullOne tells whether a server's own database has a full disk.
func (f *fullDisks) restsOnAFullOne(server contract.Process) bool {
	for _, store := range f.full {
		switch {
		case store == contract.LockDB && server == contract.LockServer:
			return true
		case store == contract.PayDB && (server == contract.PaymentResource || server == contract.RailProxy):
			return true
		}
	}
	return false
}

// counts are the counters as a fold shows them.
func (f *fullDisks) counts() map[string]int64 {
	return map[string]int64{"full_disks": f.seen, "refused_full": f.refused}
}
