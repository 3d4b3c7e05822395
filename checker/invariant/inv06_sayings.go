package invariant

import "slices"

// saying is what the wiretap said of a grant: that somebody was answered it, or asked to have it released. A token may be of
// two grants of a key in two epochs, and of one grant that was carried over: the session tells them apart.
type saying struct {
	token   int64
	session string // "" where the message did not say it
	epoch   int    // in which it was said
	spans   bool   // and its request was sent in an earlier one
}

// sayings are the latest of a key, a ring once there are maxTokens of them.
type sayings struct {
	latest    []saying
	next      int
	forgotten int64 // the highest token of the present epoch that was dropped: of it and those below nothing is known
	older     bool  // something of an earlier epoch was dropped
}

func (s *sayings) add(x saying, present int) {
	if len(s.latest) < maxTokens {
		s.latest = append(s.latest, x)
		return
	}
	if was := s.latest[s.next]; was.epoch == present {
		s.forgotten = max(s.forgotten, was.token)
	} else {
		s.older = true
	}
	s.latest[s.next] = x
	s.next = (s.next + 1) % maxTokens
}

// begin begins an epoch: the present one's sayings are an earlier one's now.
func (s *sayings) begin() {
	s.older = s.older || s.forgotten > 0
	s.forgotten = 0
}

// has tells whether something was said in the present epoch of a grant that was made in it.
func (s *sayings) has(token int64, session string, present int) bool {
	return slices.ContainsFunc(s.latest, func(x saying) bool {
		return x.token == token && x.epoch == present && (!x.spans || x.is(session))
	})
}

// had tells whether something was said, in whatever epoch, of a grant that was carried over.
func (s *sayings) had(token int64, session string) bool {
	return slices.ContainsFunc(s.latest, func(x saying) bool { return x.token == token && x.is(session) })
}

func (x saying) is(session string) bool { return x.session == "" || x.session == session }

// dropped tells whether something may have been said in the present epoch under token and been forgotten.
func (s *sayings) dropped(token int64) bool { return token <= s.forgotten }
