package payment

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"fenceproof/system/payment/machine"
	"fenceproof/system/wire"

	"github.com/go-chi/chi/v5"
)

// Limits of the texts in requests, in bytes.
const (
	maxOwner     = 64
	maxKey       = 255
	maxReference = 255
	maxReason    = 2000
)

// readCommand reads path, headers and body; every error is a 400 that names what is wrong. Nothing is asked of paydb.
func readCommand(w http.ResponseWriter, r *http.Request, decode func(http.ResponseWriter, *http.Request, *command) error) (c command, err error) {
	if c.payoutID, err = pathID(r); err != nil {
		return c, err
	}
	if c.owner, err = textHeader(r, wire.HeaderOwner, maxOwner); err != nil {
		return c, err
	}
	if c.Token, err = wire.Token(r); err != nil {
		return c, err
	}
	if c.key, err = textHeader(r, wire.HeaderIdempotency, maxKey); err != nil {
		return c, err
	}
	return c, decode(w, r, &c)
}

func pathID(r *http.Request) (string, error) {
	id := chi.URLParam(r, "id")
	if !wire.IsID(id) {
		return "", wire.NewError(wire.InvalidRequest, "the id in the path is no UUID in lower-case canonical text")
	}
	return id, nil
}

func textHeader(r *http.Request, name string, limit int) (string, error) {
	v, err := wire.Header(r, name, limit)
	if err == nil && !printable(v) {
		err = wire.NewError(wire.InvalidRequest, "header %s is not printable UTF-8 text", name)
	}
	return v, err
}

// printable tells whether a text can be stored and shown as it is.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// body decodes the request's body into v and keeps its canonical form: what a replay must equal, whatever the spelling.
func body(w http.ResponseWriter, r *http.Request, c *command, v any) error {
	if err := wire.Decode(w, r, v); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("put the request in canonical form: %w", err)
	}
	c.request = string(b)
	return nil
}

type claimBody struct {
	ExpectedState machine.State `json:"expectedState"`
}

func decodeClaim(w http.ResponseWriter, r *http.Request, c *command) error {
	var in claimBody
	if err := body(w, r, c, &in); err != nil {
		return err
	}
	c.Operation, c.Expected = machine.Claim, in.ExpectedState
	return oneOf("expectedState", in.ExpectedState, machine.States()...)
}

func decodeSubmitted(w http.ResponseWriter, r *http.Request, c *command) error {
	c.Operation = machine.Submitted
	return body(w, r, c, &struct{}{})
}

type outcomeBody struct {
	Outcome       machine.Finding `json:"outcome"`
	SubmissionID  string          `json:"submissionId,omitempty"`
	RailReference string          `json:"railReference,omitempty"`
	Reason        string          `json:"reason,omitempty"`
}

func decodeOutcome(w http.ResponseWriter, r *http.Request, c *command) error {
	var in outcomeBody
	if err := body(w, r, c, &in); err != nil {
		return err
	}
	c.Operation, c.Finding = machine.Outcome, in.Outcome
	c.submissionID, c.railReference, c.reason = in.SubmissionID, in.RailReference, in.Reason
	return firstOf(
		oneOf("outcome", in.Outcome, machine.Acked, machine.Rejected, machine.Timeout),
		optional(in.SubmissionID, id("submissionId", in.SubmissionID)),
		optional(in.RailReference, text("railReference", in.RailReference, maxReference)),
		optional(in.Reason, text("reason", in.Reason, maxReason)))
}

type postBody struct {
	RailReference string          `json:"railReference"`
	SubmissionID  string          `json:"submissionId"`
	RailOutcome   machine.Finding `json:"railOutcome"`
}

func decodePost(w http.ResponseWriter, r *http.Request, c *command) error {
	var in postBody
	if err := body(w, r, c, &in); err != nil {
		return err
	}
	c.Operation, c.railReference, c.submissionID = machine.Post, in.RailReference, in.SubmissionID
	return firstOf(
		text("railReference", in.RailReference, maxReference),
		id("submissionId", in.SubmissionID),
		oneOf("railOutcome", in.RailOutcome, machine.Acked))
}

type resolveBody struct {
	Resolution    machine.Finding `json:"resolution"`
	RailReference string          `json:"railReference,omitempty"`
	LookedUpAt    string          `json:"lookedUpAt,omitempty"`
	Operator      string          `json:"operator,omitempty"`
	Reason        string          `json:"reason,omitempty"`
}

func decodeResolve(w http.ResponseWriter, r *http.Request, c *command) error {
	var in resolveBody
	if err := body(w, r, c, &in); err != nil {
		return err
	}
	c.Operation, c.Finding = machine.Resolve, in.Resolution
	c.railReference, c.lookedUpAt, c.operator, c.reason = in.RailReference, in.LookedUpAt, in.Operator, in.Reason
	if err := oneOf("resolution", in.Resolution, machine.Acked, machine.Absent, machine.Operator); err != nil {
		return err
	}
	return in.check()
}

// check asks for the evidence of the resolution, and for no other's.
func (in resolveBody) check() error {
	switch in.Resolution {
	case machine.Acked:
		return firstOf(text("railReference", in.RailReference, maxReference), in.foreign("lookedUpAt", "operator", "reason"))
	case machine.Absent:
		return firstOf(instant("lookedUpAt", in.LookedUpAt), in.foreign("railReference", "operator", "reason"))
	default:
		if err := firstOf(text("operator", in.Operator, wire.MaxOperatorBytes), text("reason", in.Reason, wire.MaxReasonBytes), in.foreign("railReference", "lookedUpAt")); err != nil {
			return err
		}
		if utf8.RuneCountInString(strings.TrimSpace(in.Reason)) < wire.MinReasonCharacters {
			return wire.NewError(wire.InvalidRequest, "field \"reason\" needs %d characters at least", wire.MinReasonCharacters)
		}
		return nil
	}
}

func (in resolveBody) foreign(names ...string) error {
	given := map[string]string{"railReference": in.RailReference, "lookedUpAt": in.LookedUpAt, "operator": in.Operator, "reason": in.Reason}
	for _, n := range names {
		if given[n] != "" {
			return wire.NewError(wire.InvalidRequest, "field %q does not belong to resolution %s", n, in.Resolution)
		}
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// optional takes err only where the field was given.
func optional(value string, err error) error {
	if value == "" {
		return nil
	}
	return err
}

func oneOf[T ~string](field string, v T, allowed ...T) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return wire.NewError(wire.InvalidRequest, "field %q is %q and must be one of %v", field, v, allowed)
}

func id(field, v string) error {
	if wire.IsID(v) {
		return nil
	}
	return wire.NewError(wire.InvalidRequest, "field %q is no UUID in lower-case canonical text", field)
}

func text(field, v string, limit int) error {
	if v == "" || len(v) > limit || !printable(v) {
		return wire.NewError(wire.InvalidRequest, "field %q must be printable text of 1 to %d bytes", field, limit)
	}
	return nil
}

func instant(field, v string) error {
	if _, err := time.Parse(time.RFC3339Nano, v); err != nil {
		return wire.NewError(wire.InvalidRequest, "field %q must be a time like 2026-01-31T12:00:00Z", field)
	}
	return nil
}
