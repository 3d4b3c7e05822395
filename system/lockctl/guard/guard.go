// Package guard keeps a restored lock store from handing out tokens a second time. A backup is older than the tokens that
// were granted after it was made; whoever presents one of them again passes for its first holder. So before any traffic
// resumes, the store is moved past every token that the money has seen, and all sessions are ended. C1 1.7, INV-04.
package guard

import (
	"fmt"
	"math"
)

// Margin is how far past the highest token that was seen a restored lockdb is moved: tokens that were granted and never
// used are in no other store.
const Margin = 1 << 32

// UnknownError says that it is not known whether the guard was carried out: what makes it so was sent and got no answer. With
// any other error it was not.
type UnknownError struct{ err error }

func (u *UnknownError) Error() string { return u.err.Error() }
func (u *UnknownError) Unwrap() error { return u.err }

// Seen is the highest token that was seen, and where.
type Seen struct {
	Token int64  // 0: none
	Place string // table and column; "" where Token is 0
}

func (s Seen) String() string {
	if s.Token == 0 {
		return "no token at all"
	}
	return fmt.Sprintf("token %d (%s)", s.Token, s.Place)
}

// Order is what an operator asks of the guard.
type Order struct {
	Seen     Seen   // the highest token in paydb
	Floor    int64  // move past this token instead of past Seen and the Margin; 0: not given
	Operator string // who asks
	Reason   string // why
}

// target is the last token that counts as handed out once the store was moved, so that the next is above it: the floor
// where one is given, else the margin past the highest token that was seen.
func (o Order) target(margin int64) (int64, error) {
	to := o.Floor
	if to == 0 {
		if o.Seen.Token > math.MaxInt64-Margin-margin {
			return 0, fmt.Errorf("%s plus the margin of %d leaves fewer than %d tokens up to 2^63-1, the last there is: choose a floor nearer to it by hand (--floor)", o.Seen, margin, int64(Margin))
		}
		to = o.Seen.Token + margin
	}
	switch {
	case to < o.Seen.Token:
		return 0, fmt.Errorf("a floor of %d is below %s, which has been used: nothing is moved there", to, o.Seen)
	case to > math.MaxInt64-Margin:
		return 0, fmt.Errorf("%d leaves fewer than %d tokens up to 2^63-1, the last there is: nothing is moved there", to, int64(Margin))
	}
	return to, nil
}
