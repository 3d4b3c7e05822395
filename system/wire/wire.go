// Package wire is both sides of every HTTP hop of the system: headers, the error envelope and its codes, strict request
// decoding, and a client that never sends a request twice.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The headers of the contract.
const (
	HeaderOwner       = "X-Owner-Id"
	HeaderToken       = "X-Fencing-Token" // decimal int64 > 0
	HeaderIdempotency = "X-Idempotency-Key"
)

// MaxBody is the largest request body, in bytes.
const MaxBody = 1 << 20

// Limits of what an operator says of a deed (L8, P8): who does it, and why. The reason's blanks at either end do not count
// towards its least.
const (
	MaxOperatorBytes    = 64
	MinReasonCharacters = 8
	MaxReasonBytes      = 1000
)

// Code is an error code of the envelope.
type Code string

// The codes of the contract. Whether the same request may be sent again is RetrySafe's business.
const (
	InvalidRequest      Code = "INVALID_REQUEST"
	InvalidToken        Code = "INVALID_TOKEN"
	NotFound            Code = "NOT_FOUND"
	MethodNotAllowed    Code = "METHOD_NOT_ALLOWED"
	SessionUnknown      Code = "SESSION_UNKNOWN"
	SessionExpired      Code = "SESSION_EXPIRED"
	LockContended       Code = "LOCK_CONTENDED"
	ContentionExceeded  Code = "CONTENTION_EXCEEDED"
	LockLost            Code = "LOCK_LOST"
	NotLeader           Code = "NOT_LEADER"
	FencedOut           Code = "FENCED_OUT"
	PayoutNotClaimable  Code = "PAYOUT_NOT_CLAIMABLE"
	InsufficientFunds   Code = "INSUFFICIENT_FUNDS"
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT"
	StoreUnavailable    Code = "STORE_UNAVAILABLE"
	DuplicateSubmission Code = "DUPLICATE_SUBMISSION"
	RailAmbiguous       Code = "RAIL_AMBIGUOUS"
	Rejected            Code = "REJECTED"
	RailUnavailable     Code = "RAIL_UNAVAILABLE"
)

// status and retry safety of every code: may the same request be sent again with the same token without risking a
// second effect?
var codes = map[Code]struct {
	status    int
	retrySafe bool
}{
	InvalidRequest: {400, false}, InvalidToken: {400, false}, NotFound: {404, false}, MethodNotAllowed: {405, false},
	SessionUnknown: {404, false}, SessionExpired: {410, false},
	LockContended: {409, true}, ContentionExceeded: {429, true}, LockLost: {409, false}, NotLeader: {503, true},
	FencedOut: {409, false}, PayoutNotClaimable: {409, false}, InsufficientFunds: {422, false},
	IdempotencyConflict: {422, false}, StoreUnavailable: {503, true},
	DuplicateSubmission: {409, false}, RailAmbiguous: {409, false}, Rejected: {422, false}, RailUnavailable: {503, true},
}

// Error is the error envelope, and the Go error that carries it through both sides of a hop.
type Error struct {
	Code             Code   `json:"code"`
	Message          string `json:"message"`
	RetrySafe        bool   `json:"retrySafe"`
	RetryAfterMillis int64  `json:"retryAfterMillis,omitempty"`
	// Details is any JSON object; on the client's side it is the raw text, so that tokens keep every bit (see Detail).
	Details any    `json:"details,omitempty"`
	TraceID string `json:"traceId"`
	// Status is the HTTP status; it is not in the envelope.
	Status int `json:"-"`
}

// NewError makes the envelope of code; its status and retry safety follow from the code.
func NewError(code Code, format string, args ...any) *Error {
	c, ok := codes[code]
	if !ok {
		c.status = http.StatusInternalServerError
	}
	return &Error{Code: code, Status: c.status, RetrySafe: c.retrySafe, Message: fmt.Sprintf(format, args...)}
}

// With adds details to the envelope and returns it.
func (e *Error) With(details any) *Error { e.Details = details; return e }

// After adds the time after which a retry makes sense and returns the envelope.
func (e *Error) After(d time.Duration) *Error { e.RetryAfterMillis = d.Milliseconds(); return e }

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Detail decodes the details of an envelope that came over the wire into v.
func (e *Error) Detail(v any) error {
	raw, ok := e.Details.(json.RawMessage)
	if !ok {
		return fmt.Errorf("read details of %s: the answer has none", e.Code)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("read details of %s: %w", e.Code, err)
	}
	return nil
}

// CodeOf is the code of the envelope inside err, "" when there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Fenced is the details object of FENCED_OUT.
type Fenced struct {
	PresentedToken int64  `json:"presentedToken"`
	HighestToken   int64  `json:"highestToken"`
	ResourceType   string `json:"resourceType"` // account, ledger or rail; lock where L8 expected another token
	ResourceID     string `json:"resourceId"`   // the account's id; the key of a lock
	OwnerID        string `json:"ownerId"`
}

// ParseToken reads a fencing token: [1-9][0-9]* up to 2^63 − 1, and nothing else.
func ParseToken(s string) (int64, error) {
	if s == "" || s[0] < '1' || s[0] > '9' || strings.Trim(s, "0123456789") != "" {
		return 0, NewError(InvalidToken, "%s is %q: a fencing token is a decimal number from 1 to 9223372036854775807", HeaderToken, s)
	}
	t, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, NewError(InvalidToken, "%s is %q: larger than 9223372036854775807", HeaderToken, s)
	}
	return t, nil
}

// FormatToken writes a token as the header carries it.
func FormatToken(t int64) string { return strconv.FormatInt(t, 10) }

// Token reads the request's fencing token, which must be there exactly once.
func Token(r *http.Request) (int64, error) {
	v := r.Header.Values(HeaderToken)
	if len(v) != 1 {
		return 0, NewError(InvalidToken, "the request has %d headers %s and needs exactly one", len(v), HeaderToken)
	}
	return ParseToken(v[0])
}

// Header reads a required header of 1 to max bytes of printable ASCII, which must be there exactly once.
func Header(r *http.Request, name string, max int) (string, error) {
	v := r.Header.Values(name)
	if len(v) != 1 || v[0] == "" {
		return "", NewError(InvalidRequest, "the request needs one header %s", name)
	}
	if len(v[0]) > max {
		return "", NewError(InvalidRequest, "header %s has %d bytes and may have %d", name, len(v[0]), max)
	}
	if strings.ContainsFunc(v[0], func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", NewError(InvalidRequest, "header %s may hold printable ASCII only", name) // no database stores the rest
	}
	return v[0], nil
}

// IsID tells whether s is a UUID in lower-case canonical text, the only spelling of an id: one row has one name.
func IsID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

// Reply writes v as the JSON answer; v nil means no body.
func Reply(w http.ResponseWriter, status int, v any) {
	if v == nil {
		w.WriteHeader(status)
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		Fail(w, fmt.Errorf("encode the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client is gone: there is nobody to tell
}

// Fail writes err as the error envelope; an error that holds no envelope is a 500 whose text stays inside.
func Fail(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: "INTERNAL", Status: http.StatusInternalServerError, Message: "internal error; the log has it under the trace id"}
	}
	out := *e
	if out.TraceID == "" {
		out.TraceID = uuid.NewString()
	}
	Reply(w, out.Status, out)
}
