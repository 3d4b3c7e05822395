package model

// Mistake is something done wrong that no missing guard describes.
type Mistake uint8

// The mistakes.
const (
	PostAtFence         Mistake = iota // post compares fence <= T where it must be strict
	ClaimRaisesToToken                 // a claim raises the fence to T, and shuts its own token out
	Resubmit                           // the next holder submits a RAIL_SUBMITTED payout without looking for an attempt
	AttemptAfterForward                // the proxy records the attempt only when it has forwarded
	UnknownIsFailed                    // an outcome that nobody knows makes the payout FAILED
	FreshToken                         // refused by the proxy, a holder takes a new token and goes on without a claim
	ProxyRetries                       // the proxy forwards again when the rail's answer is lost
	mistakeCount
)

var mistakeNames = [mistakeCount]string{"post-at-fence", "claim-raises-to-token", "resubmit", "attempt-after-forward",
	"unknown-is-failed", "fresh-token", "proxy-retries"}

func (m Mistake) String() string { return mistakeNames[m] }

// Mistakes is a set of mistakes.
type Mistakes uint8

// MistakeSet is the set of these mistakes.
func MistakeSet(mistakes ...Mistake) Mistakes {
	var s Mistakes
	for _, m := range mistakes {
		s |= 1 << m
	}
	return s
}

// Has tells whether m is in the set.
func (s Mistakes) Has(m Mistake) bool { return s&(1<<m) != 0 }

// String joins the names with "+"; the empty set is "none".
func (s Mistakes) String() string { return join(s.Has, mistakeNames[:]) }
