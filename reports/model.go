package reports

// The data that the page's script works with. It is embedded in the page as JSON, so the names are short and the long
// lists are rows of plain values. Times are microseconds since the run began; 2^53 µs are 285 years, so they may be
// numbers. Tokens are decimal strings: JavaScript loses bits above 2^53.

// pageData is the whole of it.
type pageData struct {
	Span     int64      `json:"span"`            // µs from the start of the run to its last event
	Locks    bool       `json:"locks,omitempty"` // only the lock was put to work: the accounts are keys, and there are no payouts
	Clients  []string   `json:"clients"`
	Accounts []string   `json:"accounts"`
	Payouts  []payout   `json:"payouts"`
	Leases   []lease    `json:"leases"`
	Windows  []window   `json:"windows"`
	Marks    []mark     `json:"marks"`
	Guilty   []guilty   `json:"guilty"`
	Phases   []phase    `json:"phases"`
	Series   series     `json:"series"`
	Density  *density   `json:"density,omitempty"` // where leases had to be left out
	Stories  []story    `json:"stories"`
	Omitted  omissions  `json:"omitted"`
	Ladders  []ladder   `json:"ladders"`
	Tail     idLabelled `json:"tail"`
}

// idLabelled says which ids are told apart by their ends rather than by their beginnings.
type idLabelled struct {
	Accounts bool `json:"accounts"`
	Payouts  bool `json:"payouts"`
}

// payout is one row of the search index: id, account (index, −1: unknown), first and last µs, tokens in order of first
// use, last state, transfers, refusals at the rail and at payment-resource.
type payout struct {
	id       string
	account  int
	from, to int64
	tokens   []string
	state    string
	moved    int
	atRail   int
	atRow    int
}

// lease is one grant: client, account (index, −1: a key of no account), µs from and to, token, and how it ended.
type lease struct {
	client, account int
	from, to        int64
	token           string
	end             leaseEnd
}

// leaseEnd says how a lease ended.
type leaseEnd int

const (
	endReleased leaseEnd = iota // by its holder
	endExpired                  // nobody renewed it in time
	endTaken                    // the next grant came before its expiry: a revoke, a re-entry, or a violation
	endDeleted                  // the store dropped it: its session ended or was reaped
	endOpen                     // the history ends first
	endRevoked                  // by the operator
)

// window is one fault: what, whom it hit, µs from effect seen to heal.
type window struct {
	Number int    `json:"n"`
	Name   string `json:"name"`
	Target string `json:"target"`
	Client int    `json:"client"` // the lane it lies on, −1: none
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Note   string `json:"note,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

// mark is one refusal: µs, client, account and payout (index, −1: not in the index), fence point, operation, the token
// presented and the highest one that the fence point knew. Where the lock refused to take or extend a grant that was over,
// the point is "lock", and the highest token is the one that the key was granted with last. Where an operator revoked a
// grant, which is no refusal, it is "revoke".
type mark struct {
	at                      int64
	client, account, payout int
	point                   string
	op                      string
	token, highest          string
}

// guilty is one violation on the time axis.
type guilty struct {
	At        int64  `json:"at"`
	Invariant string `json:"inv"`
	Sentence  string `json:"text"`
	Client    int    `json:"client"`
	Account   int    `json:"account"`
	Payout    string `json:"payout,omitempty"`
	Story     int    `json:"story"` // −1: none
}

type phase struct {
	At   int64  `json:"at"`
	Name string `json:"name"`
}

// series are counts and latencies per bucket of time.
type series struct {
	Bucket  int64   `json:"bucket"` // µs
	Posted  []int64 `json:"posted"` // payouts; grants where only the lock was put to work
	Refused []int64 `json:"refused"`
	Calls   []int64 `json:"calls"`
	P50     []int64 `json:"p50"` // µs, −1 where nothing was answered
	P99     []int64 `json:"p99"`
}

// density is, per client and bucket of the series, how many leases ended there.
type density struct {
	Leases [][]int64 `json:"leases"`
}

// omissions counts what the page leaves out to stay small. The history has all of it.
type omissions struct {
	Leases     int64 `json:"leases,omitempty"`
	Marks      int64 `json:"marks,omitempty"`
	Payouts    int64 `json:"payouts,omitempty"`
	Windows    int64 `json:"windows,omitempty"`
	Violations int64 `json:"violations,omitempty"`
}

// ladder is an account's fence and the rail's mark over time: rows of µs and value, at changes only.
type ladder struct {
	Account int    `json:"account"`
	Fence   []rung `json:"fence"`
	Mark    []rung `json:"mark"`
	Coarse  bool   `json:"coarse,omitempty"` // not every change is kept
}

type rung struct {
	at    int64
	value string
}

// story is one payout told as a sequence diagram.
type story struct {
	Payout  string   `json:"payout"`
	Account string   `json:"account"`
	Kind    string   `json:"kind"` // why it is worth reading, for the picker
	Caption string   `json:"caption"`
	Guilty  bool     `json:"guilty,omitempty"`
	From    int64    `json:"from"`
	To      int64    `json:"to"`
	Lanes   []string `json:"lanes"`
	Steps   []step   `json:"steps"`
	Bands   []band   `json:"bands"`
	Holds   []hold   `json:"holds"`
	Left    int      `json:"left,omitempty"` // steps left out at the end
}

// step is one row of a story: an arrow between two lanes, or a note on one.
type step struct {
	At    int64    `json:"at"`
	Kind  stepKind `json:"kind"`
	From  int      `json:"from"`
	To    int      `json:"to"` // equal to From for a note
	Token string   `json:"token,omitempty"`
	Text  []string `json:"text"`
	Tone  tone     `json:"tone,omitempty"`
	Who   string   `json:"who,omitempty"` // the witness that saw it, and its event's number
}

type stepKind string

const (
	stepCall   stepKind = "call"
	stepAnswer stepKind = "answer"
	stepNote   stepKind = "note"
)

// tone is how a step is to be read.
type tone string

const (
	toneNone    tone = ""
	toneRefused tone = "refused" // a stale write that did not land
	toneMoney   tone = "money"
	toneBad     tone = "bad"
	toneFault   tone = "fault"
	toneRaise   tone = "raise" // a fence or mark went up
	toneUnknown tone = "unknown"
)

// band is a fault on a lane, from step to step (inclusive); hold is a lease on one.
type band struct {
	Lane int    `json:"lane"`
	From int    `json:"from"`
	To   int    `json:"to"`
	Text string `json:"text"`
}

type hold struct {
	Lane  int    `json:"lane"`
	From  int    `json:"from"`
	To    int    `json:"to"`
	Token string `json:"token"`
	Stale bool   `json:"stale,omitempty"` // it ended without its holder's doing
}
