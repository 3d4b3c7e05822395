package wire

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestABodyIsReadStrictlyAndTheErrorNamesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ body, says string }{
		"whole":                                  {`{"session":"a","ttl":9223372036854775807}`, ""},
		"no fields":                              {`{}`, ""},
		"blanks around it":                       {" \n{\"ttl\":1}\t\n", ""},
		"a null field":                           {`{"ttl":null}`, ""},
		"nothing":                                {``, "not one JSON object"},
		"null":                                   {`null`, "not one JSON object"},
		"a list":                                 {`[]`, "not one JSON object"},
		"cut short":                              {`{"ttl":1`, "not one JSON object"},
		"an unknown field and no JSON behind it": {`{"a": oops}`, "not one JSON object"},
		"two":                                    {`{} {}`, "not one JSON object"},
		"no UTF-8":                               {"{\"session\":\"\xff\"}", "not one JSON object"},
		"an unknown field":                       {`{"ttl":1,"more":2}`, `field "more" is not known here`},
		"a field in another case":                {`{"TTL":1}`, `field "TTL" is not known here`},
		"a field twice":                          {`{"ttl":1,"ttl":2}`, `field "ttl" stands there twice`},
		"a string for a number":                  {`{"ttl":"1"}`, `field "ttl" cannot be the JSON string`},
		"a number for a string":                  {`{"session":1}`, `field "session" cannot be the JSON number`},
		"an object for a number":                 {`{"ttl":{}}`, `field "ttl" cannot be the JSON object`},
		"a list for a number":                    {`{"ttl":[]}`, `field "ttl" cannot be the JSON array`},
		"a boolean for a number":                 {`{"ttl":true}`, `field "ttl" cannot be the JSON boolean`},
		"a fraction":                             {`{"ttl":1.5}`, `field "ttl" cannot be the JSON number 1.5`},
		"an exponent":                            {`{"ttl":1e3}`, `field "ttl" cannot be the JSON number 1e3`},
		"a number beyond 63 bits":                {`{"ttl":9223372036854775808}`, `field "ttl" cannot be the JSON number 9223372036854775808`},
		"a number of many digits":                {`{"ttl":` + strings.Repeat("9", 100) + `}`, `field "ttl" cannot be the JSON number`},
		"too large":                              {`{"session":"` + strings.Repeat("a", MaxBody) + `"}`, "the body is larger than 1048576 bytes"},
		"a long name that is not known":          {`{"` + strings.Repeat("n", 10) + `":1}`, `field "nnnnnnnnnn" is not known here`},
	} {
		t.Run(name, func(t *testing.T) {
			var in struct {
				Session *string `json:"session"`
				TTL     *int64  `json:"ttl"`
			}
			err := Decode(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(c.body)), &in)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != InvalidRequest || !strings.Contains(e.Message, c.says) || len(e.Message) > 200 {
				t.Errorf("got %v, want %s: %s", err, InvalidRequest, c.says)
			}
		})
	}
}

func TestATokenInABodyKeepsEveryBit(t *testing.T) {
	for _, n := range []string{"9007199254740991", "9007199254740992", "9007199254740993", "9223372036854775806", "9223372036854775807"} {
		var in struct {
			Token int64 `json:"token"`
		}
		if err := Decode(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(`{"token":`+n+`}`)), &in); err != nil || FormatToken(in.Token) != n {
			t.Errorf("%s became %d (%v)", n, in.Token, err)
		}
	}
}
