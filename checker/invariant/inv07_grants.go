package invariant

import "slices"

// grantedKey is what was granted of one key.
type grantedKey struct {
	answered  []answeredToken
	forgotten int64 // the highest token dropped from answered
	logged    []loggedGrant
	dropped   int64 // the highest token dropped from logged
	partial   int64 // when the first answer to an acquire came of which a part went on to the client, 0 without one
}

type answeredToken struct{ token, order int64 }

// loggedGrant is in the lock store's log, and was not seen answered. It was heard where its session's acquire was: whoever
// goes past the wiretap has a session that the wiretap knows nothing of.
type loggedGrant struct {
	token int64
	heard bool
}

// at is where the answer that granted token came in the wiretap's order, 0 where none was seen.
func (k *grantedKey) at(token int64) int64 {
	for i := range k.answered {
		if k.answered[i].token == token {
			return k.answered[i].order
		}
	}
	return 0
}

func (k *grantedKey) answer(token, order int64) {
	k.logged = slices.DeleteFunc(k.logged, func(g loggedGrant) bool { return g.token == token })
	if k.at(token) != 0 { // told again
		return
	}
	if len(k.answered) == maxTokens {
		k.forgotten = max(k.forgotten, k.answered[0].token)
		k.answered = slices.Delete(k.answered, 0, 1)
	}
	k.answered = append(k.answered, answeredToken{token, order})
}

func (k *grantedKey) log(g loggedGrant) {
	if k.at(g.token) != 0 {
		return
	}
	if len(k.logged) == maxTokens {
		k.dropped = max(k.dropped, k.logged[0].token)
		k.logged = slices.Delete(k.logged, 0, 1)
	}
	k.logged = append(k.logged, g)
}

// has tells whether the lock store's log has the grant, or may have had it.
func (k *grantedKey) has(token int64) bool {
	return token <= k.dropped || slices.ContainsFunc(k.logged, func(g loggedGrant) bool { return g.token == token })
}

// unheard tells whether the lock store's log has the grant, or may have had it, of somebody whose answer went past the wiretap.
func (k *grantedKey) unheard(token int64) bool {
	return token <= k.dropped || slices.ContainsFunc(k.logged, func(g loggedGrant) bool { return g.token == token && !g.heard })
}
