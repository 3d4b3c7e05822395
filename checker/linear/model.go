package linear

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Verb is what an operation asks of the lock, or what happens to it by itself.
type Verb uint8

// The verbs. The last four are no answered request: the lock store's log shows that they took place, or without a log they may
// have.
const (
	Acquire Verb = iota // session asks for the key
	Renew               // the grant under Token shall last longer
	Release             // the grant under Token shall end
	Revoke              // an operator ends the grant, whoever holds it
	Sweep               // the session of the grant under Token ends, and the grant with it
	Drop                // the grant under Token, or of session, ends by a request whose answer nobody saw
	Expire              // the lease of the grant under Token runs out
	Reap                // what an expired grant has left behind is removed
)

// Result is what an operation was answered.
type Result uint8

// The results.
const (
	Done      Result = iota // it took place; an Acquire was granted Token
	Contended               // Acquire: another session holds the key
	Lost                    // Renew, Release: the key is not held under Token
	NotHeld                 // Revoke: nobody holds the key
	Other                   // Revoke: the key is held under another token, Token
)

// Input is the request half of an operation: porcupine hands it to the model.
type Input struct {
	Verb    Verb
	Session string // Acquire: who asks
	Token   int64  // the grant that it is about; Acquire and Revoke are about none
	// After is the token of the grant before the one that an Acquire was given, in the order of tokens. Tokens only
	// increase, so a granted Acquire cannot come anywhere else; knowing that keeps the search from trying. Unordered
	// leaves it open.
	After int64
	// Maybe says that nobody knows whether it took place: where it cannot, it changes nothing.
	Maybe bool
	// Unheard says that a grant that nobody was told of may be what it met: that of an acquire without an answer, sent
	// before this was answered, by another where this is an acquire, by the asking session where it is not. Such a grant may
	// come at any moment at which the key is not held, and end at any moment; so it has no operation of its own, and keeps
	// nobody out. Its token is above Floor.
	Unheard bool
	// Exclusive says that a grant of the asking session's own is in the way of an Acquire like another's.
	Exclusive bool
}

// Unordered is the After of an Acquire that may be tried anywhere.
const Unordered = -1

// Anybody is the session of a request of which nobody knows whose it is.
const Anybody = "?"

// Output is the answer half.
type Output struct {
	Result Result
	Token  int64 // Acquire: the granted token; Revoke: the revoked token, or the one that the key is held under
	Floor  int64 // Revoke, and Drop by a revoke: later grants have this token or a higher one; 0 where nobody said
}

// Phase is how the key stands.
type Phase uint8

// The phases.
const (
	Free   Phase = iota
	Held         // by Session under Token
	Lapsed       // the lease under Token has run out, and nobody has removed or taken over what it left behind
)

// State is what the lock knows of one key: a pure value, comparable with ==.
type State struct {
	Phase   Phase
	Session string // of the grant under Token while it is Held
	Token   int64  // of the latest grant, 0 before the first; below 0 it names a grant whose token nobody knows
	Floor   int64  // every later grant has a higher token
}

// key is s as text: what differs in it differs.
func (s State) key() string {
	b := append([]byte{byte(s.Phase)}, s.Session...)
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Token))
	return string(binary.LittleEndian.AppendUint64(b, uint64(s.Floor)))
}

// Step is the specification of the lock: whether an operation can take place in state s with that answer, and how the
// key stands then. It is a function of values and changes nothing.
func Step(s State, in Input, out Output) (bool, State) {
	ok, next := s.step(in, out)
	if !ok && in.Maybe {
		return true, s
	}
	return ok, next
}

func (s State) step(in Input, out Output) (bool, State) {
	mine := in.Token == s.Token
	if in.Verb != Expire && (in.Token == 0 || in.Token > s.Floor && s.Token < 0) { // a lock without tokens knows its holder
		mine = in.Session == s.Session || in.Session == Anybody
	}
	switch in.Verb {
	case Acquire:
		return s.acquire(in, out)
	case Renew: // a renewal extends a grant that is alive, and changes nothing else of it
		return (s.Phase == Held && mine) == (out.Result == Done) || out.Result == Done && s.unheard(in, in.Token), s
	case Release:
		if out.Result == Done && !(s.Phase == Lapsed && mine) && s.unheard(in, in.Token) {
			return true, s.freed().spent(in.Token)
		}
		return s.release(mine, in, out)
	case Revoke:
		return s.revoke(in, out)
	case Sweep, Drop:
		return s.Phase != Free && mine, s.freed().above(out.Floor)
	case Expire: // of a grant that has ended already there is nothing left to expire; of one to come, not yet
		if s.Phase == Held && mine {
			return true, s.lapsed()
		}
		return s.Token >= in.Token, s
	case Reap:
		return s.Phase == Lapsed && mine, s.freed()
	}
	return false, s
}

// unheard tells whether a grant that nobody was told of may stand now, under token where that is known.
func (s State) unheard(in Input, token int64) bool {
	return in.Unheard && s.Phase != Held && (token == 0 || token > s.Floor)
}

// acquire: a key has one holder. Only the holder's own session may enter again, where the lock lets it, and every grant's
// token is above all before it.
func (s State) acquire(in Input, out Output) (bool, State) {
	other := s.Phase == Held && (s.Session != in.Session || in.Exclusive)
	if out.Result == Contended {
		return other || s.unheard(in, 0), s
	}
	if out.Token < 0 {
		return !other, State{Phase: Held, Session: in.Session, Token: out.Token, Floor: s.Floor}
	}
	if other || out.Token <= s.Floor || in.After != Unordered && in.After != s.Token {
		return false, s
	}
	return true, State{Phase: Held, Session: in.Session, Token: out.Token, Floor: out.Token}
}

// release: it acts on the grant under its token and on nothing else. A lease that has run out may still be given back
// while nobody has removed it; it may as well be told that it is lost.
func (s State) release(mine bool, in Input, out Output) (bool, State) {
	if out.Result == Lost {
		return s.Phase != Held || !mine, s
	}
	return s.Phase != Free && mine, s.freed().spent(in.Token)
}

// revoke: it ends the grant that lives and raises the floor of all later ones in the same step. Without a token it ends
// whatever there is.
func (s State) revoke(in Input, out Output) (bool, State) {
	switch held := s.Phase == Held; {
	case out.Result == NotHeld:
		return !held, s
	case out.Result == Other:
		return held && s.under(out.Token) || s.unheard(in, out.Token), s
	case in.Maybe:
		return held, s.freed()
	case out.Token == 0:
		return true, s.freed().above(out.Floor)
	case out.Floor > 0 && out.Floor <= out.Token:
		return false, s
	default:
		return held && s.under(out.Token) || s.unheard(in, out.Token), s.freed().spent(out.Token).above(out.Floor)
	}
}

// under tells whether the grant can be the one under token: nobody knows the token of some.
func (s State) under(token int64) bool {
	return s.Token == token || s.Token < 0 && token > s.Floor
}

// above is s with every later token at floor or higher.
func (s State) above(floor int64) State {
	s.Floor = max(s.Floor, floor-1)
	return s
}

// spent is s after a grant under token that nobody was told of.
func (s State) spent(token int64) State {
	s.Floor = max(s.Floor, token)
	return s
}

func (s State) freed() State { return State{Phase: Free, Token: s.Token, Floor: s.Floor} }

// lapsed keeps the session: it may still give back what it has lost.
func (s State) lapsed() State {
	return State{Phase: Lapsed, Session: s.Session, Token: s.Token, Floor: s.Floor}
}

var seed = maphash.MakeSeed()

// model is Step as porcupine takes it, from a key that stands as init says.
func model(init State) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return init },
		Step: func(s, in, out any) (bool, any) {
			ok, next := Step(s.(State), in.(Input), out.(Output))
			return ok, next
		},
		Hash:              func(s any) uint64 { return maphash.Comparable(seed, s.(State)) },
		DescribeOperation: func(in, out any) string { return describe(in.(Input), out.(Output)) },
		DescribeState:     func(s any) string { return s.(State).String() },
		DescribeOperationMetadata: func(m any) string {
			who, _ := m.(string)
			return harmless(who)
		},
	}
}

// String is the state in the words of porcupine's page.
func (s State) String() string {
	switch s.Phase {
	case Held:
		return fmt.Sprintf("held%s by session %s", spoken(" under token ", s.Token), harmless(s.Session))
	case Lapsed:
		return "the grant" + spoken(" under token ", s.Token) + " has lapsed"
	}
	if s.Token <= 0 {
		return "free"
	}
	return fmt.Sprintf("free after token %d, later tokens above %d", s.Token, s.Floor)
}

func describe(in Input, out Output) string {
	switch in.Verb {
	case Acquire:
		if out.Result == Contended {
			return "acquire → contended"
		}
		return "acquire →" + cmp.Or(spoken(" token ", out.Token), " granted") + unsure(in)
	case Renew, Release:
		verb := map[Verb]string{Renew: "renew", Release: "release"}[in.Verb]
		return fmt.Sprintf("%s%s → %s", verb, spoken(" ", in.Token), map[Result]string{Done: "done", Lost: "lost"}[out.Result])
	case Revoke:
		switch out.Result {
		case NotHeld:
			return "revoke → not held"
		case Other:
			return fmt.Sprintf("revoke → held under %d", out.Token)
		}
		return fmt.Sprintf("revoke → %d, floor %d%s", out.Token, out.Floor, unsure(in))
	}
	return map[Verb]string{Sweep: "session of token ends:", Drop: "unanswered end of", Expire: "expiry of", Reap: "removal of expired"}[in.Verb] +
		spoken(" ", in.Token) + unsure(in)
}

// spoken is a token as sentences have it, behind before: nothing where it has no number.
func spoken(before string, token int64) string {
	if token <= 0 {
		return ""
	}
	return before + strconv.FormatInt(token, 10)
}

func unsure(in Input) string {
	if in.Maybe {
		return " (perhaps)"
	}
	return ""
}

// harmless is a name of the evidence as a page may show it that does not escape what it shows.
func harmless(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-_.:→ ", r):
			return r
		}
		return '?'
	}, name)
}
