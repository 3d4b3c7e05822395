package edn

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind says what a Value is.
type Kind uint8

// The kinds.
const (
	Nil Kind = iota
	Boolean
	Number
	String
	Character
	Keyword
	Symbol
	List
	Vector
	Set
	Map
	Tagged // a tag and its one form, records included
)

// Value is one form, and where it began.
type Value struct {
	Kind Kind
	// Text is the string, the keyword without its colon, the tag without its number sign, and of all that has no items what
	// stands there.
	Text string
	// Items are the elements; of a map keys and values in turn, of a tagged form the one form behind the tag.
	Items        []Value
	Line, Column int
}

// Get is the value of a map under a keyword; ok is false where it has none, or v is no map.
func (v *Value) Get(key string) (value Value, ok bool) {
	if v.Kind != Map {
		return Value{}, false
	}
	for i := 0; i+1 < len(v.Items); i += 2 {
		if k := &v.Items[i]; k.Kind == Keyword && k.Text == key {
			return v.Items[i+1], true
		}
	}
	return Value{}, false
}

// Int is the whole number that v is, where it is one of 64 bits; Clojure's N for a long one may stand behind it.
func (v *Value) Int() (n int64, ok bool) {
	if v.Kind != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(v.Text, "N"), 10, 64)
	return n, err == nil
}

// kindOf says what a token is.
func kindOf(t string) Kind {
	switch t {
	case "nil":
		return Nil
	case "true", "false":
		return Boolean
	}
	digits := strings.TrimLeft(t, "+-")
	switch {
	case len(t) > 1 && t[0] == ':':
		return Keyword
	case digits != "" && len(t)-len(digits) <= 1 && digits[0] >= '0' && digits[0] <= '9':
		return Number
	}
	return Symbol
}

// token reads the rest of a token that begins with c.
func (r *Reader) token(c rune) (string, error) {
	var b strings.Builder
	b.WriteRune(c)
	for {
		c, err := r.next()
		if err != nil {
			return b.String(), ended(err)
		}
		if space(c) || strings.ContainsRune(`()[]{}";\^@`, c) {
			r.back(c)
			return b.String(), nil
		}
		if r.left <= 0 {
			return "", r.tooLong()
		}
		b.WriteRune(c)
	}
}

// quoted reads a string behind its opening quote.
func (r *Reader) quoted() (string, error) {
	var b strings.Builder
	for {
		c, err := r.next()
		switch {
		case err != nil:
			return "", err
		case r.left <= 0:
			return "", r.tooLong()
		case c == '"':
			return b.String(), nil
		case c != '\\':
			b.WriteRune(c)
			continue
		}
		if c, err = r.next(); err != nil {
			return "", err
		}
		if err := r.escape(&b, c); err != nil {
			return "", err
		}
	}
}

var escapes = map[rune]rune{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '\\': '\\', '"': '"', '\'': '\''}

// escape writes what \c stands for. One that is none of Clojure's (in the pattern of a regular expression) stays as it is.
func (r *Reader) escape(b *strings.Builder, c rune) error {
	switch plain, known := escapes[c]; {
	case known:
		b.WriteRune(plain)
	case c == 'u':
		n, err := r.hex()
		if err == nil && utf16.IsSurrogate(n) {
			n, err = r.pair(n)
		}
		if err != nil {
			return err
		}
		b.WriteRune(n)
	default:
		b.WriteRune('\\')
		b.WriteRune(c)
	}
	return nil
}

// hex reads the four digits behind \u.
func (r *Reader) hex() (rune, error) {
	var hex [4]rune
	for i := range hex {
		var err error
		if hex[i], err = r.next(); err != nil {
			return 0, err
		}
	}
	n, err := strconv.ParseUint(string(hex[:]), 16, 32)
	if err != nil {
		return 0, r.fail(r.line, r.column, "\\u has four hexadecimal digits behind it, and not %q", string(hex[:]))
	}
	return rune(n), nil
}

// pair reads the second half of a character that takes two of Java's, and gives the character.
func (r *Reader) pair(first rune) (rune, error) {
	for _, want := range `\u` {
		if c, err := r.next(); err != nil {
			return 0, err
		} else if c != want {
			return 0, r.fail(r.line, r.column, "\\u%04x is half a character, and the other half is not behind it", first)
		}
	}
	second, err := r.hex()
	if err != nil {
		return 0, err
	}
	c := utf16.DecodeRune(first, second)
	if c == utf8.RuneError {
		return 0, r.fail(r.line, r.column, "\\u%04x and \\u%04x are no character", first, second)
	}
	return c, nil
}

// character reads a character behind its backslash: \a, \newline, \u263a, \(.
func (r *Reader) character() (string, error) {
	c, err := r.next()
	if err != nil {
		return "", err
	}
	if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
		return string(c), nil
	}
	return r.token(c)
}

// dispatch reads what a number sign begins.
func (r *Reader) dispatch(v Value, depth int) (_ Value, there bool, err error) {
	c, err := r.next()
	if err != nil {
		return v, false, err
	}
	switch c {
	case '{':
		v.Kind = Set
		v.Items, err = r.items('}', depth)
		return v, true, err
	case '_':
		_, err = r.inner(depth)
		return v, false, err
	case '"': // a regular expression
		v.Kind = String
		v.Text, err = r.quoted()
		return v, true, err
	case '^':
		_, err = r.inner(depth)
		return v, false, err
	case '#': // ##Inf, ##NaN
		v.Kind = Symbol
		v.Text, err = r.token('#')
		return v, true, err
	case '\'':
		v.Kind = Symbol
		v.Text, err = r.token('\'')
		return v, true, err
	case '<':
		return v, false, r.fail(v.Line, v.Column, "#<…> cannot be read by anybody: it was printed for people")
	case '(':
		v.Kind = List
		v.Items, err = r.items(')', depth)
		return v, true, err
	}
	if space(c) || strings.ContainsRune(`)]}[;\@`, c) {
		return v, false, r.fail(v.Line, v.Column, "# with nothing behind it")
	}
	v.Kind = Tagged
	if v.Text, err = r.token(c); err != nil {
		return v, false, err
	}
	one, err := r.inner(depth)
	v.Items = []Value{one}
	return v, true, err
}

// ended is nil for the end of the text, which ends a token as well.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// AppendString appends s to b as a string that Clojure and every reader of EDN take.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case unicode.IsControl(c) && c < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}
