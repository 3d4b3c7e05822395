package invariant

import "slices"

// grantedKey is what was granted of one key.
type grantedKey struct {
	answered  []answeredToken
	forgotten int64 // the highest token dropped from answered
	logged    []loggedGrant
	dropped   int64 // the highest token dropped from logged

	// Of the first answer to an acquire that may have told its client a token or not: the session that had asked, and when.
	tornFor  string
	tornAt   int64 // 0: there was none
	tornMore bool  // there was another, for another session
}

// answeredToken was answered to an acquire for session: when in the wiretap's order, and to which call, 0 where to several.
type answeredToken struct {
	token, order int64
	session      string
	call         int64
}

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
	if first := k.at(a.token); first != nil { // told again: neither of the two calls alone can lose it
		first.call = 0
		return
	}
	if len(k.answered) == maxTokens {
		k.forgotten = max(k.forgotten, k.answered[0].token)
		k.answered = slices.Delete(k.answered, 0, 1)
	}
	k.answered = append(k.answered, a)
}

// withdraw takes the answer to that call for one that granted nobody anything, and tells whether it had been taken for a grant.
// The lock store's log has its grant, or will have it.
func (k *grantedKey) withdraw(call int64) bool {
	i := slices.IndexFunc(k.answered, func(a answeredToken) bool { return a.call == call })
	if i < 0 {
		return false
	}
	a := k.answered[i]
	k.answered = slices.Delete(k.answered, i, i+1)
	k.log(loggedGrant{a.token, a.session, true})
	return true
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

// mayHaveTold tells whether a torn answer from before order may have granted to session; "" is any.
func (k *grantedKey) mayHaveTold(session string, order int64) bool {
	return k.tornAt != 0 && k.tornAt < order && (k.tornMore || session == "" || session == k.tornFor)
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
