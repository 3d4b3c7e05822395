// Package stub is the payment rail that nobody can change: no tokens, no keys, not idempotent. Every call it accepts
// moves money, and its journal is the only truth about how often.
package stub

import (
	"encoding/binary"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"sync"
	"time"

	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// Declined is the code of the rail's 402: it certainly moved no money. It is the rail's own, not one of the contract's.
const Declined wire.Code = "DECLINED"

// maxRef is the longest client reference, in bytes.
const maxRef = 128

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// Options are the rail's habits.
type Options struct {
	Latency          time.Duration // before money moves
	FailureRate      float64       // share of calls that are declined, 0 to 1
	DuplicateAckRate float64       // share of calls that move money and lose their reply, 0 to 1
	LookupLag        time.Duration // how far the look-up is behind
	Seed             uint64        // decides declines and lost replies
}

// Rail serves S1 and S2.
type Rail struct {
	options Options
	journal *Journal
	log     *slog.Logger

	mu    sync.Mutex
	calls map[string]uint64 // calls seen, by client reference
}

// New makes a rail that writes journal.
func New(o Options, journal *Journal, log *slog.Logger) *Rail {
	return &Rail{options: o, journal: journal, log: log, calls: map[string]uint64{}}
}

// Handler is the rail's HTTP API: POST /submit (S1) and GET /transfers (S2).
func (r *Rail) Handler() http.Handler {
	mux := chi.NewRouter()
	mux.NotFound(wire.NoRoute)
	mux.MethodNotAllowed(wire.NoMethod)
	mux.Post("/submit", r.submit)
	mux.Get("/transfers", r.transfers)
	return mux
}

// submission is the body of S1.
type submission struct {
	ClientRef   string `json:"clientRef"`
	AmountMinor int64  `json:"amountMinor"`
	Currency    string `json:"currency"`
}

func (s submission) check() error {
	switch {
	case s.ClientRef == "" || len(s.ClientRef) > maxRef:
		return wire.NewError(wire.InvalidRequest, `field "clientRef" has %d bytes and needs 1 to %d`, len(s.ClientRef), maxRef)
	case s.AmountMinor <= 0:
		return wire.NewError(wire.InvalidRequest, `field "amountMinor" is %d and must be positive`, s.AmountMinor)
	case !currency.MatchString(s.Currency):
		return wire.NewError(wire.InvalidRequest, `field "currency" is %q and must be three capital letters`, s.Currency)
	}
	return nil
}

// accepted is the answer to S1.
type accepted struct {
	RailReference string    `json:"railReference"`
	AcceptedAt    time.Time `json:"acceptedAt"`
}

// submit is S1. It does not look at the request's context: a caller that goes away does not call the money back.
func (r *Rail) submit(w http.ResponseWriter, req *http.Request) {
	var in submission
	if err := wire.Decode(w, req, &in); err != nil {
		wire.Fail(w, err)
		return
	}
	if err := in.check(); err != nil {
		wire.Fail(w, err)
		return
	}
	decline, loseReply := r.mood(in.ClientRef)
	time.Sleep(r.options.Latency)
	if decline {
		r.log.Info("transfer declined", "event", "transfer_declined", "clientRef", in.ClientRef)
		wire.Fail(w, &wire.Error{Code: Declined, Status: http.StatusPaymentRequired, Message: "the rail declines this transfer"})
		return
	}
	t := Transfer{RailReference: "rail-" + uuid.NewString(), ClientRef: in.ClientRef, AmountMinor: in.AmountMinor,
		Currency: in.Currency, AcceptedAt: time.Now().UTC()}
	if err := r.journal.Append(t); err != nil {
		r.log.Error("the journal could not be written", "event", "journal_failed", "error", err)
		panic(http.ErrAbortHandler) // nobody knows whether the money has moved, so no answer says either
	}
	if loseReply {
		r.log.Info("money moved, reply lost", "event", "reply_lost", "clientRef", in.ClientRef, "railReference", t.RailReference)
		panic(http.ErrAbortHandler) // the server closes the connection without an answer
	}
	wire.Reply(w, http.StatusOK, accepted{t.RailReference, t.AcceptedAt})
}

// mood decides what the rail does with the next call for clientRef. It depends on the seed, the reference and the number
// of the call only, so that the same calls meet the same fate in whatever order they arrive.
func (r *Rail) mood(clientRef string) (decline, loseReply bool) {
	r.mu.Lock()
	n := r.calls[clientRef]
	r.calls[clientRef] = n + 1
	r.mu.Unlock()
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64([]byte(clientRef), n)) // a hash does not fail
	dice := rand.New(rand.NewPCG(r.options.Seed, h.Sum64()))
	decline = dice.Float64() < r.options.FailureRate
	loseReply = dice.Float64() < r.options.DuplicateAckRate
	return decline, loseReply
}

// found is the answer to S2.
type found struct {
	Transfers []Transfer `json:"transfers"`
}

// transfers is S2, read-only: the money moved for one client reference, as far as the look-up's lag lets it be seen.
func (r *Rail) transfers(w http.ResponseWriter, req *http.Request) {
	refs := req.URL.Query()["clientRef"]
	if len(refs) != 1 || refs[0] == "" {
		wire.Fail(w, wire.NewError(wire.InvalidRequest, "the look-up needs one parameter clientRef"))
		return
	}
	wire.Reply(w, http.StatusOK, found{r.journal.Find(refs[0], r.options.LookupLag)})
}
