package invariant

import "slices"

// grantedKey is what was granted of one key.
type grantedKey struct {
	answered  []answeredToken
	forgotten int64 // the highest token dropped from answered
	logged    []loggedGrant
	dropped   int64 // the highest token dropped from logged

	lost []lostGrant
	// Of the first answer to an acquire that may have told its client a token, and nobody knows which: the session that had
	// asked, "" for any, and when.
	tornFor  string
	tornAt   int64 // 0: there was none
	tornMore bool  // there was another, for another session
}

// answeredToken was answered to an acquire for session: when in the wiretap's order, and to which calls.
type answeredToken struct {
	token, order int64
	session      string
	calls        []int64
}

// lostGrant was answered, and lost on its way to the client: from when on the client may know the token or not.
type lostGrant struct{ token, order int64 }

// loggedGrant is in the lock store's log, and was not seen answered. It was heard where its session's acquire was: whoever
// goes past the wiretap has a session that the wiretap knows nothing of.
type loggedGrant struct {
	token   int64
	session string
	heard   bool
}

// at is the first answer that granted token, nil where none was seen.
func (k *grantedKey) at(token int64) *answeredToken {
	for i := range k.answered {
		if k.answered[i].token == token {
			return &k.answered[i]
		}
	}
	return nil
}

// latest is the token of the latest answer, 0 without one.
func (k *grantedKey) latest() int64 {
	if len(k.answered) == 0 {
		return 0
	}
	return k.answered[len(k.answered)-1].token
}

func (k *grantedKey) answer(a answeredToken) {
	k.logged = slices.DeleteFunc(k.logged, func(g loggedGrant) bool { return g.token == a.token })
	if first := k.at(a.token); first != nil { // told again: it is lost when all of them are
		first.calls = append(first.calls, a.calls...)
		return
	}
	if len(k.answered) == maxTokens {
		k.forgotten = max(k.forgotten, k.answered[0].token)
		k.answered = slices.Delete(k.answered, 0, 1)
	}
	k.answered = append(k.answered, a)
}

// withdraw takes the answer to that call for one that may have told its client nothing. Where no other call was told the same,
// the token counts as not answered; the lock store's log has its grant, or will have it.
func (k *grantedKey) withdraw(call, order int64) {
	i := slices.IndexFunc(k.answered, func(a answeredToken) bool { return slices.Contains(a.calls, call) })
	if i < 0 {
		return
	}
	a := &k.answered[i]
	if a.calls = slices.DeleteFunc(a.calls, func(c int64) bool { return c == call }); len(a.calls) > 0 {
		return
	}
	gone := loggedGrant{a.token, a.session, true}
	k.answered = slices.Delete(k.answered, i, i+1)
	k.log(gone)
	if len(k.lost) == maxTokens {
		k.lost = slices.Delete(k.lost, 0, 1)
		k.tear("", order) // which ones were is not known any more
	}
	k.lost = append(k.lost, lostGrant{gone.token, order})
}

func (k *grantedKey) log(g loggedGrant) {
	if k.at(g.token) != nil || slices.ContainsFunc(k.logged, func(o loggedGrant) bool { return o.token == g.token }) {
		return
	}
	if len(k.logged) == maxTokens {
		k.dropped = max(k.dropped, k.logged[0].token)
		k.logged = slices.Delete(k.logged, 0, 1)
	}
	k.logged = append(k.logged, g)
}

// hear notes that the session's acquire was heard, perhaps after the log had its grant: the wiretap's events may have to wait.
func (k *grantedKey) hear(session string) {
	for i := range k.logged {
		k.logged[i].heard = k.logged[i].heard || k.logged[i].session == session
	}
}

func (k *grantedKey) inLog(token int64) *loggedGrant {
	for i := range k.logged {
		if k.logged[i].token == token {
			return &k.logged[i]
		}
	}
	return nil
}

// unheard tells whether the lock store's log has the grant of somebody whose answer went past the wiretap.
func (k *grantedKey) unheard(token int64) bool {
	g := k.inLog(token)
	return g != nil && !g.heard
}

// forgets tells whether token may have been answered and dropped from memory, drops whether its grant may have been in the
// lock store's log and dropped.
func (k *grantedKey) forgets(token int64) bool { return 0 < token && token <= k.forgotten }
func (k *grantedKey) drops(token int64) bool   { return 0 < token && token <= k.dropped }

// tear notes an answer for session that may have told its client a token or not.
func (k *grantedKey) tear(session string, order int64) {
	switch {
	case k.tornAt == 0:
		k.tornFor, k.tornAt = session, order
	case k.tornFor != session:
		k.tornMore = true
	}
}

// mayHaveTold tells whether a lost answer or a torn one from before order may have granted token to session; "" is any.
func (k *grantedKey) mayHaveTold(token int64, session string, order int64) bool {
	return slices.ContainsFunc(k.lost, func(l lostGrant) bool { return l.token == token && l.order < order }) ||
		k.tornAt != 0 && k.tornAt < order && (k.tornMore || session == "" || k.tornFor == "" || session == k.tornFor)
}

// mayTell tells whether there was any such answer of token.
func (k *grantedKey) mayTell(token int64) bool {
	return k.tornAt != 0 || slices.ContainsFunc(k.lost, func(l lostGrant) bool { return l.token == token })
}

// lately remembers sessions: the latest maxLately at least, and never more than twice as many.
type lately struct{ now, before map[string]struct{} }

const maxLately = 1024

func (l *lately) add(session string) {
	if l.now == nil || len(l.now) == maxLately {
		l.now, l.before = make(map[string]struct{}, maxLately), l.now
	}
	l.now[session] = struct{}{}
}

func (l *lately) has(session string) bool {
	_, now := l.now[session]
	_, before := l.before[session]
	return now || before
}
