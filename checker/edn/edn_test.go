package edn_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"fenceproof/checker/edn"
)

// shown is a value as a test compares it.
func shown(v edn.Value) string {
	var parts []string
	for _, i := range v.Items {
		parts = append(parts, shown(i))
	}
	switch v.Kind {
	case edn.List:
		return "(" + strings.Join(parts, " ") + ")"
	case edn.Vector:
		return "[" + strings.Join(parts, " ") + "]"
	case edn.Map:
		return "{" + strings.Join(parts, " ") + "}"
	case edn.Set:
		return "#{" + strings.Join(parts, " ") + "}"
	case edn.Tagged:
		return "#" + v.Text + " " + parts[0]
	case edn.String:
		return fmt.Sprintf("%q", v.Text)
	case edn.Keyword:
		return ":" + v.Text
	case edn.Character:
		return `\` + v.Text
	}
	return v.Text
}

func all(text string) (forms []string, err error) {
	r := edn.NewReader(strings.NewReader(text))
	for {
		v, err := r.Next()
		if err != nil {
			return forms, err
		}
		forms = append(forms, shown(v))
	}
}

func TestWhatClojurePrintsIsRead(t *testing.T) {
	for text, want := range map[string]string{
		`{:type :invoke, :f :acquire, :value nil, :process 0}`: `{:type :invoke :f :acquire :value nil :process 0}`,
		`#jepsen.history.Op{:index 0, :time 7}`:                `#jepsen.history.Op {:index 0 :time 7}`,
		`[1 -2 +3 4N 5.5M 1/3 0x7f 1e9 ##Inf ##NaN]`:           `[1 -2 +3 4N 5.5M 1/3 0x7f 1e9 #Inf #NaN]`,
		`("a\nb" "\u263a" "say \"x\"")`:                        `("a\nb" "☺" "say \"x\"")`,
		`[\a \newline \( \u0041]`:                              `[\a \newline \( \u0041]`,
		`#{:a "b"} #_ {:not "here"} true`:                      `#{:a "b"} true`,
		"; a remark\n{:a ; and another\n 1}":                   `{:a 1}`,
		`#object[java.util.Date 0x12ab "now"]`:                 `#object [java.util.Date 0x12ab "now"]`,
		`^{:line 3} [x] #^String y`:                            `[x] y`,
		`#:jepsen{:a 1} #"\d+" #'clojure.core/map`:             `#:jepsen {:a 1} "\\d+" 'clojure.core/map`,
		`#inst "2026-01-02T03:04:05Z"`:                         `#inst "2026-01-02T03:04:05Z"`,
		"\ufeff{:a 1}":                                         `{:a 1}`,
		`["\ud83d\ude00" "\ufffd"]`:                            `["😀" "�"]`,
	} {
		forms, err := all(text)
		if got := strings.Join(forms, " "); got != want || !errors.Is(err, io.EOF) {
			t.Errorf("%s\nis read as %s (%v)\nwant       %s", text, got, err, want)
		}
	}
}

func TestAnErrorNamesLineAndColumn(t *testing.T) {
	for text, want := range map[string]string{
		"{:a 1}\n{:a 1 :b}":               "line 2, column 7: a map's key without a value",
		"[1 2}":                           `line 1, column 5: "}" closes nothing`,
		"{:a [1 2":                        "line 1, column 9: the text ends in the middle of a form",
		"\n  \"abc":                       "line 2, column 7: the text ends in the middle of a form",
		"ä ö ]":                           `line 1, column 5: "]" closes nothing`,
		"{:a 1\n :a 2}":                   "line 2, column 2: the key :a stands twice in its map",
		`"\uzzzz"`:                        `line 1, column 7: \u has four hexadecimal digits behind it, and not "zzzz"`,
		"{:a \"\xff\"}":                   "line 1, column 6: this is no UTF-8",
		"\"\\u000\n":                      `line 1, column 7: \u has four hexadecimal digits behind it, and not "000\n"`,
		`"\ud83d"`:                        `line 1, column 8: \ud83d is half a character, and the other half is not behind it`,
		`"\ud83d\u0041"`:                  `line 1, column 13: \ud83d and \u0041 are no character`,
		"#<Foo@12>":                       "line 1, column 1: #<…> cannot be read by anybody",
		"# x":                             "line 1, column 1: # with nothing behind it",
		strings.Repeat("[", 200):          "line 1, column 102: more than 100 forms within one another",
		strings.Repeat("#_ ", 200):        "more than 100 forms within one another",
		strings.Repeat("'", 200):          "more than 100 forms within one another",
		strings.Repeat("a", 2<<20):        "the form has more than 1048576 characters",
		`"` + strings.Repeat("\n", 2<<20): "the form has more than 1048576 characters",
		"[" + strings.Repeat("1 ", 1<<20): "the form has more than 1048576 characters",
	} {
		_, err := all(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func TestTheElementsOfOneVectorComeOneByOne(t *testing.T) {
	for text, want := range map[string]string{
		"[{:a 1}\n {:a 2}]":  "{:a 1} {:a 2} EOF",
		"({:a 1} #_ x)":      "{:a 1} EOF",
		"{:a 1} {:a 2}":      "{:a 1} {:a 2} EOF",
		"[{:a 1}] x":         `{:a 1} line 1, column 10: "x" stands behind the end of the whole`,
		"[{:a 1}":            `{:a 1} line 1, column 8: the text ends before the "]" that closes it`,
		"[[1] (2)]":          "[1] (2) EOF",
		"":                   "EOF",
		"; nothing but this": "EOF",
	} {
		r := edn.NewReader(strings.NewReader(text))
		if _, err := r.Enter(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			v, err := r.Next()
			if err != nil {
				got = append(got, err.Error())
				break
			}
			got = append(got, shown(v))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %s, want %s", text, s, want)
		}
	}
}

// Whatever the text is read from may fail, which is not the text's fault.
func TestAFailureToReadIsNoMistakeOfTheText(t *testing.T) {
	broken := errors.New("the disk is gone")
	r := edn.NewReader(io.MultiReader(strings.NewReader("{:a 1} {:b "), iotest.ErrReader(broken)))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	_, err := r.Next()
	var e *edn.Error
	if errors.As(err, &e) || !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// A file of any length is read form by form.
func TestALongTextNeedsNoMoreMemoryThanItsLongestForm(t *testing.T) {
	const forms = 50_000
	r := edn.NewReader(io.LimitReader(&endless{text: "{:type :ok, :process 1} \n"}, forms*25))
	n := 0
	for {
		v, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n++; v.Line != n || v.Column != 1 {
			t.Fatalf("form %d is at line %d, column %d", n, v.Line, v.Column)
		}
	}
	if n != forms {
		t.Errorf("%d forms", n)
	}
}

type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}
