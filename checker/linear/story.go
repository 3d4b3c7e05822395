package linear

import (
	"cmp"
	"fmt"
	"slices"
)

// maxRefs is how many events prove a violation at most, minRefs how many are looked for.
const (
	maxRefs = 6
	minRefs = 3
)

// story is what came before an operation that has no place: the operations that have one, in their order, and how the
// key stands after them.
type story struct {
	key  string
	at   State
	past []Op
}

// sentence says in plain words what cannot have taken place, and what stood against it.
func (s *story) sentence(o *Op) string {
	against := s.standing()
	switch o.In.Verb {
	case Acquire:
		return s.acquired(o, against)
	case Renew, Release:
		verb := map[Verb]string{Renew: "renewed", Release: "released"}[o.In.Verb]
		if o.Out.Result == Lost {
			return fmt.Sprintf("%s was answered that key %s is lost%s, although %s", o.Who, s.key, spoken(" under token ", o.In.Token), against)
		}
		return fmt.Sprintf("%s %s key %s%s, although %s", o.Who, verb, s.key, spoken(" with token ", o.In.Token), against)
	case Revoke:
		switch o.Out.Result {
		case NotHeld:
			return fmt.Sprintf("a revoke was answered that nobody holds key %s, although %s", s.key, against)
		case Other:
			return fmt.Sprintf("a revoke was answered that key %s is held under token %d, although %s", s.key, o.Out.Token, against)
		}
		return fmt.Sprintf("the grant of key %s under token %d was revoked, although %s", s.key, o.Out.Token, against)
	case Expire:
		return fmt.Sprintf("the lease of key %s under token %d ran out before it was granted", s.key, o.In.Token)
	}
	return fmt.Sprintf("the lock store's log shows that the grant of key %s under token %d ended, although %s", s.key, o.In.Token, against)
}

func (s *story) acquired(o *Op, against string) string {
	switch {
	case o.Out.Result == Contended:
		return fmt.Sprintf("%s was refused key %s as held by another, although %s", o.Who, s.key, against)
	case o.Out.Token < 0 || s.at.Token < 0:
		return fmt.Sprintf("%s was granted key %s%s, although %s", o.name(), s.key, spoken(" with token ", o.Out.Token), against)
	case o.Out.Token <= s.at.Token:
		return fmt.Sprintf("%s was granted key %s with token %d after token %d had been granted", o.name(), s.key, o.Out.Token, s.at.Token)
	case o.Out.Token <= s.at.Floor:
		return fmt.Sprintf("%s was granted key %s with token %d, although a revoke had raised its floor to %d", o.name(), s.key, o.Out.Token, s.at.Floor+1)
	}
	return fmt.Sprintf("%s was granted key %s with token %d, although %s", o.name(), s.key, o.Out.Token, against)
}

// name is who was granted a key: the client that asked, or the owner where only the log tells.
func (o *Op) name() string {
	if len(o.Refs) > 1 {
		return string(o.Who)
	}
	return cmp.Or(o.Owner, string(o.Who))
}

// standing says how the key stands, and since when.
func (s *story) standing() string {
	grant, end := s.latest()
	switch {
	case grant == nil && s.at.Token == 0:
		return "nobody had been granted it"
	case s.at.Phase == Held && grant != nil:
		return grant.name() + " held it" + spoken(" with token ", s.at.Token)
	case s.at.Phase == Held:
		return fmt.Sprintf("session %s held it%s", s.at.Session, spoken(" with token ", s.at.Token))
	case s.at.Phase == Lapsed:
		return fmt.Sprintf("the lease of its latest grant%s had expired", spoken(", under token ", s.at.Token)+comma(s.at.Token))
	}
	how := "had ended"
	if end != nil {
		how = map[Verb]string{Release: "had been released", Revoke: "had been revoked", Sweep: "had ended with its session",
			Drop: "had been given back", Reap: "had expired"}[end.In.Verb]
	}
	return fmt.Sprintf("its latest grant%s %s", spoken(", under token ", s.at.Token)+comma(s.at.Token), how)
}

// comma closes what spoken has put between commas.
func comma(token int64) string {
	if token <= 0 {
		return ""
	}
	return ","
}

// latest is the grant that was made last, and what ended it.
func (s *story) latest() (grant, end *Op) {
	for i := range s.past {
		switch o := &s.past[i]; {
		case o.granted() && o.Out.Token == s.at.Token:
			grant, end = o, nil
		case o.subject() != s.at.Token && o.In.Token != 0 || o.read():
		case o.ends() || o.In.Verb == Reap:
			end = o
		}
	}
	return grant, end
}

// refs are the events that show it: those of the operation without a place, of the latest grant and its end, and of what
// came last.
func (s *story) refs(o *Op) []int64 {
	out := slices.Clone(o.Refs)
	add := func(o *Op) {
		for _, i := range slices.Backward(o.Refs) { // the answer tells more than the request
			if len(out) < maxRefs && !slices.Contains(out, i) {
				out = append(out, i)
			}
		}
	}
	if grant, end := s.latest(); grant != nil {
		add(grant)
		if end != nil {
			add(end)
		}
	}
	for i := range slices.Backward(s.past) {
		if x := &s.past[i]; len(out) < minRefs || !x.read() && x.subject() == s.at.Token && len(out) < maxRefs-1 {
			add(x)
		}
	}
	slices.Sort(out)
	return out
}
