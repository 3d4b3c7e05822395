package linear

import (
	"math"

	"fenceproof/checker/contract"
)

// Op is one operation on a key as the search sees it: it took place at one moment from Lo to Hi, both included, on the
// harness's clock, in nanoseconds.
type Op struct {
	In     Input
	Out    Output
	Lo, Hi int64
	Who    contract.Process // who asked; the lock store itself where nobody did
	Owner  string           // Acquire: the owner id
	Refs   []int64          // the I of the events that show it
}

// forever is the Hi of what had not happened when the history ended.
const forever = math.MaxInt64

// read tells whether o changes nothing wherever it can take place.
func (o *Op) read() bool { return o.In.Verb == Renew || o.Out.Result != Done }

// granted tells whether o is an acquire that got the key.
func (o *Op) granted() bool { return o.In.Verb == Acquire && o.Out.Result == Done }

// open tells whether o may have changed the key in a way that no token names.
func (o *Op) open() bool {
	switch o.In.Verb {
	case Acquire:
		return o.granted() && o.Out.Token < 0
	case Revoke:
		return o.In.Maybe || o.Out.Result == Done && (o.In.Unheard || o.Out.Token == 0)
	case Renew, Release, Drop:
		return o.In.Token <= 0 || o.In.Unheard
	}
	return false
}

// ambiguous tells whether the state that o leaves may depend on when it takes place, or on whether it does, even when all that
// is about its grant has taken place.
func (o *Op) ambiguous() bool { return o.open() && !o.read() }

// subject is the token that o is about, 0 for none.
func (o *Op) subject() int64 {
	if o.In.Verb == Acquire || o.In.Verb == Revoke {
		return o.Out.Token
	}
	return o.In.Token
}

// ends tells whether o may end the grant that it is about, and needs it to do so.
func (o *Op) ends() bool {
	switch o.In.Verb {
	case Release, Revoke, Sweep, Drop:
		return o.Out.Result == Done
	}
	return false
}

// needs tells whether o can only take place while its grant has not been followed by another.
func (o *Op) needs() bool {
	switch o.In.Verb {
	case Renew:
		return o.Out.Result == Done
	case Revoke:
		return o.Out.Result == Other || o.Out.Result == Done
	case Reap:
		return true
	}
	return o.ends()
}
