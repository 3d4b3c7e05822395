package invariant

import (
	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// fullDisks counts what disks that were full were good for, by the database whose they were: that one was, the nemesis' word
// is taken for; what the system made of it, the wiretap's.
type fullDisks struct {
	seen      map[contract.Process]int64 // disks that were seen to be full
	exhausted int64                      // those whose server ended for want of room for its log
	refused   int64                      // calls that were answered that a store is unavailable, by whoever rests on a full one

	full map[int]contract.Process // by window, whose disk is full
}

func newFullDisks() fullDisks {
	return fullDisks{seen: map[contract.Process]int64{}, full: map[int]contract.Process{}}
}

func (f *fullDisks) hear(e *history.Event) {
	switch {
	case e.W == history.Wiretap && e.Stage == history.Answered && e.Status == 503 && len(f.full) > 0:
		if link, err := contract.ParseLink(e.Link); err == nil && f.restsOnAFullOne(link.To) {
			f.refused++
		}
	case e.W != history.Nemesis || e.Op != "disk-full":
	case e.Phase == "seen":
		f.seen[contract.Process(e.Target)]++
		f.full[e.Window] = contract.Process(e.Target)
		if e.Attrs["log"] != "" {
			f.exhausted++
		}
	case e.Phase == "healed", e.Phase == "failed":
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

// of is how often the disk of a database was full, as a fold shows it that rests on that one.
func (f *fullDisks) of(store contract.Process) map[string]int64 {
	return map[string]int64{"full_" + string(store): f.seen[store]}
}

// all are all the counters.
func (f *fullDisks) all() map[string]int64 {
	return map[string]int64{"full_lockdb": f.seen[contract.LockDB], "full_paydb": f.seen[contract.PayDB], "logs_exhausted": f.exhausted, "refused_full": f.refused}
}
