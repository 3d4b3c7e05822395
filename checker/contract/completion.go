package contract

// Type is the type of an event of a history, in Jepsen's sense.
type Type string

// The event types. An invocation has exactly one completion: OK, Fail or Info.
const (
	// Invoke opens an invocation.
	Invoke Type = "invoke"
	// OK: the answer is definite and the operation has its documented effect.
	OK Type = "ok"
	// Fail: the operation certainly had no effect.
	Fail Type = "fail"
	// Info: nobody can tell from the answer whether the operation had its effect. Also used for plain facts.
	Info Type = "info"
)

// Outcome is what became of a rail submission, as P7 reports it and the submission's row holds it.
type Outcome string

// The outcomes of a rail submission. OutcomeDuplicate and OutcomeUnknown only occur in answers, never in a row.
const (
	OutcomeAcked     Outcome = "ACKED"
	OutcomeRejected  Outcome = "REJECTED"
	OutcomeTimeout   Outcome = "TIMEOUT"
	OutcomeFenced    Outcome = "FENCED"
	OutcomeDuplicate Outcome = "DUPLICATE"
	OutcomeUnknown   Outcome = "UNKNOWN"
)

// Completion classifies the answer to op. status is the HTTP status, or 0 when no answer came; code is the error
// envelope's code, "" where the answer has none. For OpSubmit the second result says what became of the submission:
// its refusals commit rows of their own, so they are OK with an outcome.
func Completion(op Op, status int, code Code) (Type, Outcome) {
	success := status >= 200 && status < 300
	if op == OpSubmit {
		switch {
		case success:
			return OK, OutcomeAcked
		case code == FencedOut:
			return OK, OutcomeFenced
		case code == DuplicateSubmission:
			return OK, OutcomeDuplicate
		case code == Rejected:
			return OK, OutcomeRejected
		case code == RailUnavailable, status == 400, status == 404, status == 405:
			return Fail, ""
		default:
			return Info, OutcomeUnknown
		}
	}
	switch {
	case success:
		return OK, ""
	case op == OpClaim && code == InsufficientFunds:
		return OK, "" // it commits PENDING → FAILED
	case op == OpTransfer:
		if status == 402 {
			return Fail, ""
		}
		return Info, "" // anything else a rail may answer after it has moved the money
	case status >= 400 && status < 500 && status != 408 && status != 429 && code != "":
		return Fail, ""
	case status == 429 && code == ContentionExceeded:
		return Fail, ""
	default:
		return Info, ""
	}
}
