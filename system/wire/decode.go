package wire

import (
	"bytes"
	"errors"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads a JSON body strictly into the struct v points to: an object with known fields only, spelled as they are
// and named once, the right types, UTF-8, at most MaxBody bytes, nothing after it. The error is INVALID_REQUEST and names
// the field.
func Decode(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if jsontext.Value(body).Kind() != '{' { // null would pass for an object without fields
		return notOneObject()
	}
	if err := jsonv2.Unmarshal(body, v, strictly); err != nil {
		return misfit(body, err)
	}
	return nil
}

var strictly = jsonv2.RejectUnknownMembers(true)

// maxEager bounds what is set aside for a body because its header announces as much.
const maxEager = 64 << 10

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= maxEager {
		b.Grow(int(n) + bytes.MinRead) // with less, ReadFrom would grow it once more to see the end
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBody))
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return nil, NewError(InvalidRequest, "the body is larger than %d bytes", MaxBody)
	case err != nil:
		return nil, NewError(InvalidRequest, "the body could not be read: %v", err)
	}
	return b.Bytes(), nil
}

func notOneObject() error { return NewError(InvalidRequest, "the body is not one JSON object") }

// misfit says in the contract's words why a body could not be read.
func misfit(body []byte, err error) error {
	var syntax *jsontext.SyntacticError
	var semantic *jsonv2.SemanticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return NewError(InvalidRequest, "field %q stands there twice", syntax.JSONPointer.LastToken())
	case errors.As(err, &syntax), !jsontext.Value(body).IsValid(): // a field that is wrong may come before the end of all JSON
		return notOneObject()
	case !errors.As(err, &semantic):
		return NewError(InvalidRequest, "the body does not fit: %v", err)
	}
	field := semantic.JSONPointer.LastToken()
	if errors.Is(err, jsonv2.ErrUnknownName) {
		return NewError(InvalidRequest, "field %q is not known here", field)
	}
	return NewError(InvalidRequest, "field %q cannot be the JSON %s%s", field, kindName(semantic.JSONKind), shown(semantic.JSONValue))
}

// kindName is what people call a kind of JSON value.
func kindName(k jsontext.Kind) string {
	switch k {
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "value"
}

// shown is a value that did not fit, where it is short enough to be shown.
func shown(v jsontext.Value) string {
	if len(v) == 0 || len(v) > 40 {
		return ""
	}
	return " " + string(v)
}
