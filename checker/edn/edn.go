// Package edn reads EDN, the text form of Clojure's data, as far as histories of Jepsen have it: form by form, with the
// place of each in the file, and within bounds. It reads what Clojure prints besides the letter of EDN (records, metadata,
// regular expressions, #object[…], ##Inf, ratios), because errors that a client met stand in its history as they were
// printed.
package edn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of one form. Beyond them it is refused: no operation of a lock is that large.
const (
	MaxDepth = 100     // of forms within forms
	MaxForm  = 1 << 20 // characters
)

// Error says where a file is no EDN. Line and Column count from 1, columns in characters.
type Error struct {
	Line, Column int
	Msg          string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// Reader reads the forms of a text one after the other.
type Reader struct {
	in     *bufio.Reader
	line   int // of the last rune
	column int
	before int // the column before the last rune, to go back
	ahead  rune
	has    bool // ahead is the next rune
	left   int  // characters that the form may still have
	inside rune // the bracket that ends the collection that Enter entered, 0 outside of one
	err    error
}

// NewReader makes a Reader of in.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: bufio.NewReader(in), line: 1}
}

// errEnd is the end of the text where something must still come.
var errEnd = errors.New("the text ends in the middle of a form")

// fail is an error at a place. Behind a line feed that was just read that is the line feed's own.
func (r *Reader) fail(line, column int, format string, args ...any) error {
	if column < 1 {
		line, column = line-1, r.before+1
	}
	return &Error{line, column, fmt.Sprintf(format, args...)}
}

// next is the next rune; io.EOF at the end.
func (r *Reader) next() (rune, error) {
	if r.has {
		r.has = false
		r.step(r.ahead)
		return r.ahead, nil
	}
	c, size, err := r.in.ReadRune()
	switch {
	case errors.Is(err, io.EOF):
		return 0, io.EOF
	case err != nil:
		return 0, &readError{err}
	case c == utf8.RuneError && size == 1:
		return 0, r.fail(r.line, r.column+1, "this is no UTF-8, and what reads as the same need not be the same")
	}
	r.step(c)
	return c, nil
}

// readError is an error of what the text is read from. It says nothing about the text.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

func (r *Reader) step(c rune) {
	r.before = r.column
	r.left--
	if c == '\n' {
		r.line, r.column = r.line+1, 0
		return
	}
	r.column++
}

// back gives c, which next gave last, back.
func (r *Reader) back(c rune) {
	r.ahead, r.has = c, true
	r.left++
	if c == '\n' {
		r.line--
	}
	r.column = r.before
}

func space(c rune) bool { return c == ',' || unicode.IsSpace(c) }

// blank skips what is nothing, and gives the first rune of what is something.
func (r *Reader) blank() (rune, error) {
	for {
		c, err := r.next()
		switch {
		case err != nil:
			return 0, err
		case c == ';':
			for c != '\n' {
				if c, err = r.next(); err != nil {
					return 0, err
				}
			}
		case !space(c) && c != '\ufeff':
			return c, nil
		}
	}
}

// Enter steps into the vector or list that comes next, so that Next gives its elements and io.EOF at its end. entered is
// false where something else comes, which stays where it is.
func (r *Reader) Enter() (entered bool, err error) {
	c, err := r.blank()
	if err == io.EOF {
		return false, nil
	}
	if err != nil {
		return false, r.wrap(err)
	}
	if c == '[' || c == '(' {
		r.inside = closing[c]
		return true, nil
	}
	r.back(c)
	return false, nil
}

var closing = map[rune]rune{'[': ']', '(': ')', '{': '}'}

// Next reads the next form. At the end it returns io.EOF; any other error stays, and is an *Error with line and column where the
// text is at fault, and not what it is read from.
func (r *Reader) Next() (Value, error) {
	if r.err != nil {
		return Value{}, r.err
	}
	v, err := r.top()
	if err != nil {
		r.err = err
	}
	return v, err
}

func (r *Reader) top() (Value, error) {
	for {
		c, err := r.blank()
		switch {
		case err == io.EOF && r.inside != 0:
			return Value{}, r.fail(r.line, r.column+1, "the text ends before the %q that closes it", string(r.inside))
		case err == io.EOF:
			return Value{}, io.EOF
		case err != nil:
			return Value{}, r.wrap(err)
		case c == r.inside:
			r.inside = 0
			if c, err := r.blank(); err != io.EOF {
				return Value{}, r.after(c, err)
			}
			return Value{}, io.EOF
		}
		r.left = MaxForm
		v, there, err := r.form(c, 0)
		if err != nil {
			return Value{}, r.wrap(err)
		}
		if there {
			return v, nil
		}
	}
}

func (r *Reader) after(c rune, err error) error {
	if err != nil {
		return r.wrap(err)
	}
	return r.fail(r.line, r.column, "%q stands behind the end of the whole", string(c))
}

// wrap makes an Error of what went wrong while reading.
func (r *Reader) wrap(err error) error {
	var e *Error
	var in *readError
	switch {
	case errors.As(err, &e):
		return err
	case errors.As(err, &in):
		return fmt.Errorf("read EDN: %w", in.error)
	case errors.Is(err, io.EOF):
		err = errEnd
	}
	return &Error{r.line, r.column + 1, err.Error()}
}

// form reads the form that begins with c; there is false for one that is discarded or is metadata: then the next one counts.
func (r *Reader) form(c rune, depth int) (v Value, there bool, err error) {
	v.Line, v.Column = r.line, r.column
	if depth > MaxDepth {
		return v, false, r.fail(v.Line, v.Column, "more than %d forms within one another", MaxDepth)
	}
	switch c {
	case '(', '[', '{':
		v.Kind = map[rune]Kind{'(': List, '[': Vector, '{': Map}[c]
		v.Items, err = r.items(closing[c], depth)
		if err == nil && v.Kind == Map {
			err = r.pairs(&v)
		}
		return v, true, err
	case ')', ']', '}':
		return v, false, r.fail(v.Line, v.Column, "%q closes nothing", string(c))
	case '"':
		v.Kind = String
		v.Text, err = r.quoted()
		return v, true, err
	case '\\':
		v.Kind = Character
		v.Text, err = r.character()
		return v, true, err
	case '#':
		return r.dispatch(v, depth)
	case '^':
		_, err = r.inner(depth)
		return v, false, err
	case '\'', '@', '`', '~':
		v, err = r.inner(depth)
		return v, true, err
	}
	v.Text, err = r.token(c)
	v.Kind = kindOf(v.Text)
	if v.Kind == Keyword {
		v.Text = strings.TrimLeft(v.Text, ":")
	}
	return v, true, err
}

// inner reads the one form that must come now.
func (r *Reader) inner(depth int) (Value, error) {
	for {
		c, err := r.blank()
		if err != nil {
			return Value{}, err
		}
		v, there, err := r.form(c, depth+1)
		if err != nil || there {
			return v, err
		}
	}
}

// items reads forms up to the bracket that closes them.
func (r *Reader) items(end rune, depth int) ([]Value, error) {
	var out []Value
	for {
		c, err := r.blank()
		if err != nil {
			return nil, err
		}
		if c == end {
			return out, nil
		}
		if r.left <= 0 {
			return nil, r.tooLong()
		}
		v, there, err := r.form(c, depth+1)
		if err != nil {
			return nil, err
		}
		if there {
			out = append(out, v)
		}
	}
}

func (r *Reader) tooLong() error {
	return r.fail(r.line, r.column, "the form has more than %d characters", MaxForm)
}

// pairs sees that a map has a value for each key, and each keyword once.
func (r *Reader) pairs(m *Value) error {
	if len(m.Items)%2 != 0 {
		last := m.Items[len(m.Items)-1]
		return r.fail(last.Line, last.Column, "a map's key without a value")
	}
	seen := map[string]bool{}
	for i := 0; i < len(m.Items); i += 2 {
		k := &m.Items[i]
		if k.Kind != Keyword {
			continue
		}
		if seen[k.Text] {
			return r.fail(k.Line, k.Column, "the key :%s stands twice in its map", k.Text)
		}
		seen[k.Text] = true
	}
	return nil
}
