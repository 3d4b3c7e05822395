package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	"fenceproof/checker/contract"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxFile is the largest plan file, in bytes: far more than the steps of the longest drive.
const MaxFile = 16 << 20

// Write prints p as a plan file.
func (p Plan) Write() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	return append(b, '\n'), nil
}

// Read reads and validates the plan file at path; "-" is the standard input.
func Read(path string) (Plan, error) {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return Plan{}, fmt.Errorf("read the plan: %w", err)
		}
		defer f.Close()
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return Plan{}, fmt.Errorf("read the plan: %w", err)
	}
	p, err := Parse(b)
	if err != nil {
		return Plan{}, fmt.Errorf("plan %s: %w", path, err)
	}
	return p, nil
}

// Parse reads and validates a plan. Unknown fields, events, targets and faults are refused with the nearest right one; so
// are a field that stands there twice, or in another case.
func Parse(b []byte) (Plan, error) {
	if len(b) > MaxFile {
		return Plan{}, fmt.Errorf("not a plan: it has more than %d bytes", MaxFile)
	}
	if jsontext.Value(b).Kind() != '{' {
		return Plan{}, errors.New("not a plan: a plan is a JSON object")
	}
	var p Plan
	if err := jsonv2.Unmarshal(b, &p, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Plan{}, misread(err)
	}
	return p, p.Validate()
}

// misread says where a plan is none, and why.
func misread(err error) error {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("not a plan: %s stands there twice", where(syntax.JSONPointer))
		}
		return fmt.Errorf("not a plan: no JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	var semantic *jsonv2.SemanticError
	if !errors.As(err, &semantic) {
		return fmt.Errorf("not a plan: %w", err)
	}
	at := semantic.JSONPointer
	switch {
	case errors.Is(err, jsonv2.ErrUnknownName):
		name := at.LastToken()
		return fmt.Errorf("not a plan: unknown field %q in %s%s", name, where(at.Parent()), contract.Meant(name, fields(at.Parent())))
	case semantic.GoType == reflect.TypeFor[Duration]() && semantic.JSONKind == '0':
		return fmt.Errorf("not a plan: %s is no duration; write it like \"250ms\" or \"1.5s\"", where(at))
	case semantic.Err != nil && semantic.JSONKind != '0':
		return fmt.Errorf("not a plan: %s: %w", where(at), semantic.Err)
	}
	return fmt.Errorf("not a plan: %s cannot be %s", where(at), called(semantic.JSONKind))
}

// called is what people call a kind of JSON value.
func called(k jsontext.Kind) string {
	switch k {
	case '"':
		return "a text"
	case '0':
		return "this number"
	case 't', 'f':
		return "true or false"
	case '[':
		return "a list"
	case 'n':
		return "null"
	}
	return "an object"
}

// where is a place in a plan as people count: steps[3].for is the fourth step's in JSON's own counting, and "step 4: for"
// here, as in every other message about a plan.
func where(at jsontext.Pointer) string {
	var parts []string
	step := ""
	for t := range at.Tokens() {
		if n, err := strconv.Atoi(t); err == nil && len(parts) == 1 && parts[0] == "steps" {
			step, parts = fmt.Sprintf("step %d", n+1), nil
			continue
		}
		parts = append(parts, t)
	}
	place := strings.Join(parts, ".")
	switch {
	case step == "" && place == "":
		return "the plan"
	case step == "":
		return place
	case place == "":
		return step
	}
	return step + ": " + place
}

// fields lists the fields that the object at a place of a plan may have.
func fields(at jsontext.Pointer) (names []string) {
	t := reflect.TypeFor[Plan]()
	for token := range at.Tokens() {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		if _, err := strconv.Atoi(token); err == nil {
			continue
		}
		for i := range t.NumField() {
			if jsonName(t.Field(i)) == token {
				t = t.Field(i).Type
				break
			}
		}
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		names = append(names, jsonName(t.Field(i)))
	}
	return names
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
