package history

import (
	"bytes"
	stdjson "encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"fenceproof/checker/contract"
)

// anyText draws strings of every kind that a body or a row can hold, broken UTF-8 included.
var anyText = rapid.OneOf(
	rapid.Just(""), rapid.String(), rapid.StringMatching(`[a-z0-9-]{1,40}`),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	rapid.SampledFrom([]string{"\u2028\u2029\u2027", "<&>", "\x00\x1f\x7f\"\\/\b\f\n\r\t", "\xed\xa0\x80", "😀\xf0\x9f", "\ufffd"}),
)

var anyNumber = rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{
	0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, 1<<53 - 1, 1 << 53, 1<<53 + 1}))

func anyMap(t *rapid.T) map[string]string {
	if !rapid.Bool().Draw(t, "has map") {
		return nil
	}
	return rapid.MapOfN(anyText, anyText, 1, 40).Draw(t, "map")
}

// anyEvent fills every field of an Event by reflection, so that a field that the codec forgets is found.
func anyEvent(t *rapid.T) Event {
	var e Event
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(anyText.Draw(t, name))
		case reflect.Int, reflect.Int64:
			f.SetInt(anyNumber.Draw(t, name))
		case reflect.Uint32:
			f.SetUint(uint64(rapid.Uint32().Draw(t, name)))
		case reflect.Map:
			f.Set(reflect.ValueOf(anyMap(t)))
		case reflect.Slice:
			for range rapid.IntRange(0, 3).Draw(t, name) {
				e.Changes = append(e.Changes, Change{
					Table: anyText.Draw(t, "table"), Kind: Kind(anyText.Draw(t, "kind")), Old: anyMap(t), New: anyMap(t)})
			}
		default:
			t.Fatalf("the test does not know how to fill %s", name)
		}
	}
	return e
}

// standard is what encoding/json makes of e, without its escapes for HTML.
func standard(t interface{ Fatal(...any) }, e *Event) []byte {
	var b bytes.Buffer
	enc := stdjson.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func TestTheEncoderWritesWhatEncodingJSONWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(t)
		if got, want := AppendEvent(nil, &e), standard(t, &e); !bytes.Equal(got, want) {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
	})
}

func TestTheDecoderReadsBackWhatWasWritten(t *testing.T) {
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(t)
		line := AppendEvent(nil, &e)
		var want, got Event
		if err := stdjson.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		if err := d.Decode(line, &got); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
	})
}

func TestTokensKeepEveryBitAndAreDecimalStrings(t *testing.T) {
	var d Decoder
	for _, token := range []int64{1, 41, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		e := Event{Token: token, Granted: token, Highest: token}
		var got Event
		line := AppendEvent(nil, &e)
		if err := d.Decode(line, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, e) {
			t.Errorf("%d came back as %d, %d, %d", token, got.Token, got.Granted, got.Highest)
		}
	}
	if line := string(AppendEvent(nil, &Event{Token: 7})); !strings.Contains(line, `"token":"7"`) {
		t.Errorf("no decimal string: %s", line)
	}
}

func TestTheDecoderToleratesWhatItDoesNotKnowAndRefusesWhatIsWrong(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	for _, c := range []struct {
		line string
		want *Event // nil: refused
	}{
		{`{"i":1,"new":{"a":[1.5e+3,true,false,null,{"b":-0}]},"type":"ok"}`, &Event{I: 1, Type: contract.OK}},
		{" {\t\"i\" : 1 , \"w\":\r\"logs\" }\n", &Event{I: 1, W: Logs}},
		{`{"\u0069":2,"proc":"\ud83d\ude00\ud800x\/"}`, &Event{I: 2, Proc: "😀\ufffdx/"}},
		{`{"i":null,"changes":null,"attrs":null,"token":null,"w":null}`, &Event{}},
		{`{"attrs":{"a":null,"b":"c"}}`, &Event{Attrs: map[string]string{"b": "c"}}},
		{`{"i":1,"i":2}`, &Event{I: 2}},
		{`{}`, &Event{}},
		{``, nil}, {`{`, nil}, {`{"i"`, nil}, {`{"i":`, nil}, {`{"i":1`, nil}, {`{"i":1,}`, nil}, {`{"i":1}}`, nil}, {`[]`, nil}, {`null`, nil},
		{`{"i":1.0}`, nil}, {`{"i":1e3}`, nil}, {`{"i":01}`, nil}, {`{"i":+1}`, nil}, {`{"i":"1"}`, nil}, {`{"i":-}`, nil},
		{`{"i":9223372036854775808}`, nil}, {`{"i":-9223372036854775809}`, nil}, {`{"i":99999999999999999999999}`, nil},
		{`{"xid":4294967296}`, nil}, {`{"xid":-1}`, nil},
		{`{"token":41}`, nil}, {`{"token":"041"}`, nil}, {`{"token":"4 1"}`, nil}, {`{"token":""}`, nil}, {`{"token":"0x29"}`, nil},
		{`{"w":"` + "\x01" + `"}`, nil}, {`{"w":"` + "\xff" + `"}`, nil}, {`{"w":"\x"}`, nil}, {`{"w":"\u12g4"}`, nil}, {`{"w":"\`, nil},
		{`{"changes":[null]}`, nil}, {`{"changes":[{"old":{"a":1}}]}`, nil}, {`{"u":nul}`, nil}, {`{"u":1.}`, nil}, {`{"u":01}`, nil},
		{`{"u":` + deep + `}`, nil},
	} {
		var d Decoder
		var got Event
		err := d.Decode([]byte(c.line), &got)
		switch name := c.line[:min(len(c.line), 60)]; {
		case (err == nil) != (c.want != nil):
			t.Errorf("%s: error %v", name, err)
		case c.want != nil && !reflect.DeepEqual(got, *c.want):
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, *c.want)
		}
	}
}

// FuzzDecode holds the decoder against two others. It may never panic; what it takes is JSON; what json v2 takes, it
// takes with the same result. (null is left out: in a row it means NULL here and "" there.)
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"i":1,"w":"paydb","t":2,"type":"info","proc":"paydb","op":"commit","lsn":"0/1","xid":7,"changes":[{"table":"account","kind":"update","old":{"fence":"1"},"new":{"fence":"2"}}]}`))
	f.Add([]byte(`{"i":2,"token":"41","granted":"9223372036854775807","req":"{\"a\":\"\\u00e9\"}","x":[1.5e-3,{}]}`))
	f.Add([]byte(`{"attrs":{"k":"v","":""},"msg":"\ud83d\ude00\u2028","status":-0}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var d Decoder
		var got, want Event
		err := d.Decode(line, &got)
		if err == nil && (!stdjson.Valid(line) || !utf8.Valid(line)) {
			t.Fatalf("took what is no JSON: %q", line)
		}
		if json.Unmarshal(line, &want) != nil || bytes.Contains(line, []byte("null")) {
			return
		}
		if err != nil {
			t.Fatalf("refused %q: %v", line, err)
		}
		tidy(&got)
		tidy(&want)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q\n got %+v\nwant %+v", line, got, want)
		}
	})
}

// tidy makes empty and absent the same.
func tidy(e *Event) {
	if len(e.Changes) == 0 {
		e.Changes = nil
	}
}
