package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

// FuzzDecode: whatever the body, it is taken or refused with INVALID_REQUEST; what is taken is one JSON object of known
// fields, and comes back the same when it is written again.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{`{"name":"a","count":9223372036854775807,"inner":{"list":["x"]}}`, `{"count":null}`, ` {} `, `{"name":"\ud83d\ude00"}`, `{"inner":{"list":[]},"inner":{}}`} {
		f.Add([]byte(body))
	}
	type shape struct {
		Name  string `json:"name,omitempty"`
		Count *int64 `json:"count,omitempty"`
		Inner *struct {
			List []string `json:"list,omitempty"`
		} `json:"inner,omitempty"`
	}
	decode := func(body []byte, v any) error {
		return Decode(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)), v)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got shape
		if err := decode(body, &got); err != nil {
			if CodeOf(err) != InvalidRequest || len(err.Error()) > len(body)+1000 {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if len(body) > MaxBody || !json.Valid(body) {
			t.Fatalf("took %.200q", body)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var again shape
		if err := decode(text, &again); err != nil {
			t.Fatalf("%q was taken and is %s, which is not: %v", body, text, err)
		}
		if other, _ := json.Marshal(again); !bytes.Equal(other, text) {
			t.Fatalf("%q is %s and then %s", body, text, other)
		}
	})
}

// FuzzHeaders: a token is a positive number in its one spelling, a header is printable, and an id has one spelling.
func FuzzHeaders(f *testing.F) {
	f.Add("41", "executor-1", "5f0c2f0e-6d5b-4c5e-9d0b-3a1f6f3f9c11")
	f.Add("9223372036854775808", "ä", "{5f0c2f0e-6d5b-4c5e-9d0b-3a1f6f3f9c11}")
	f.Add("+1", "", "URN:UUID:5f0c2f0e-6d5b-4c5e-9d0b-3a1f6f3f9c11")
	f.Fuzz(func(t *testing.T, token, owner, id string) {
		r := &http.Request{Header: http.Header{HeaderToken: {token}, HeaderOwner: {owner}}}
		n, err := Token(r)
		if (err == nil) != (n > 0 && strconv.FormatInt(n, 10) == token) || err != nil && CodeOf(err) != InvalidToken {
			t.Errorf("token %q is %d (%v)", token, n, err)
		}
		o, err := Header(r, HeaderOwner, 64)
		if err == nil && (o != owner || o == "" || len(o) > 64) || err != nil && CodeOf(err) != InvalidRequest {
			t.Errorf("header %q is %q (%v)", owner, o, err)
		}
		if IsID(id) && len(id) != 36 {
			t.Errorf("%q is an id", id)
		}
	})
}
