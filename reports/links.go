package reports

import (
	"fmt"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// hitBy is on whose lane a fault of target lies: a process's own, a link's on that of its client.
func hitBy(target string) string {
	if l, err := contract.ParseLink(target); err == nil {
		return string(l.From)
	}
	return target
}

// faultOf names a fault by what it is and, where it is one of a link, by where the link leads to.
func faultOf(name, target string) string {
	if l, err := contract.ParseLink(target); err == nil {
		return fmt.Sprintf("%s →%s", name, l.To)
	}
	return name
}

// linkFaults say what a fault of a link begins with and what its end brings.
var linkFaults = map[contract.Op]struct{ begins, ends string }{
	"cut":   {"CUT OFF", "what was sent over it is lost"},
	"hold":  {"HELD BACK", "what was sent over it arrives now"},
	"slow":  {"SLOW", "what was under way arrives now"},
	"reset": {"RESET", "its connections last again"},
}

// messageFaults say what becomes of a single message.
var messageFaults = map[contract.Op]string{
	"drop": "LOST: a message", "delay": "LATE: a message", "duplicate": "AGAIN: a request", "reorder": "OVERTAKEN: a request",
}

// overLink tells of a fault of a link or of one of its messages, "" for nothing; ok is false where e is about none.
func overLink(e *history.Event) (text string, ok bool) {
	l, err := contract.ParseLink(e.Target)
	if err != nil {
		return "", false
	}
	f, known := linkFaults[e.Op]
	one, single := messageFaults[e.Op]
	switch {
	case single && e.Phase == "seen":
		text = line(string(l.From), "%s between it and %s; %s", one, l.To, e.Msg)
	case e.Op == "delay" && e.Phase == "healed":
		text = line(string(l.From), "GOES ON: the message that was late")
	case known && e.Phase == "seen":
		text = line(string(l.From), "%s: its link to %s, from here on", f.begins, l.To)
	case known && e.Phase == "healed":
		text = line(string(l.From), "HEALED: its link to %s; %s", l.To, f.ends)
	}
	return text, true
}
