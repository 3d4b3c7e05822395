package history

import (
	"bytes"
	"errors"
	"hash/maphash"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// Errors of the scanner. Decode adds the column, the Reader file and line.
var (
	errShort  = errors.New("the text ends too early")
	errSyntax = errors.New("this is no JSON")
	errUTF8   = errors.New("the string is not UTF-8")
	errNumber = errors.New("want a whole number of 64 bits")
	errString = errors.New("want a string")
	errObject = errors.New("want an object")
	errArray  = errors.New("want an array")
	errDepth  = errors.New("the value is nested too deeply")
	errRest   = errors.New("something follows the object")
)

// maxDepth bounds the nesting of values that nobody knows.
const maxDepth = 1000

// scanner reads JSON text from left to right.
type scanner struct {
	buf  []byte
	pos  int
	room []byte // a string after its escapes were resolved
	kept *keepsake
}

// keepsake is a table of strings that were seen, one per place. A newcomer takes the place.
type keepsake struct {
	seed  maphash.Seed
	table [1 << 13]string
}

// maxKept is the length of the longest string that is worth looking up.
const maxKept = 64

func (s *scanner) reset(b []byte) {
	s.buf, s.pos = b, 0
	if s.kept == nil {
		s.kept = &keepsake{seed: maphash.MakeSeed()}
	}
	if cap(s.room) > 1<<20 {
		s.room = nil
	}
}

// keep makes a string of b, the same one as last time where it can.
func (s *scanner) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > maxKept {
		return string(b)
	}
	place := &s.kept.table[maphash.Bytes(s.kept.seed, b)%uint64(len(s.kept.table))]
	if *place != string(b) {
		*place = string(b)
	}
	return *place
}

// peek passes over white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.buf) {
		switch c := s.buf[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// take passes over c, when it is what comes next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.pos >= len(s.buf) {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) wrong(err error) error {
	if s.peek() == 0 && s.pos >= len(s.buf) {
		return errShort
	}
	return err
}

func (s *scanner) end() error {
	if s.peek(); s.pos < len(s.buf) {
		return errRest
	}
	return nil
}

func (s *scanner) literal(word string) bool {
	s.peek()
	if !bytes.HasPrefix(s.buf[s.pos:], []byte(word)) {
		return false
	}
	s.pos += len(word)
	return true
}

func (s *scanner) null() bool { return s.peek() == 'n' && s.literal("null") }

// object calls member for every member of the object that comes next, with the scanner at its value. The name is only
// good until then.
func (s *scanner) object(member func(name []byte) error) error {
	if !s.take('{') {
		return s.wrong(errObject)
	}
	if s.take('}') {
		return nil
	}
	for {
		name, err := s.text()
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.wrong(errSyntax)
		}
		if err := member(name); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.wrong(errSyntax)
		}
	}
}

// array calls item for every item of the array that comes next.
func (s *scanner) array(item func() error) error {
	if !s.take('[') {
		return s.wrong(errArray)
	}
	if s.take(']') {
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.wrong(errSyntax)
		}
	}
}

// text reads a string. The bytes lie in the line or in room: they are good until the next call.
func (s *scanner) text() ([]byte, error) {
	if !s.take('"') {
		return nil, s.wrong(errString)
	}
	start, ascii := s.pos, true
	for i := start; i < len(s.buf); i++ {
		c := s.buf[i]
		if plain[c] {
			continue
		}
		switch {
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '"':
			s.pos = i + 1
			if !ascii && !utf8.Valid(s.buf[start:i]) {
				return nil, errUTF8
			}
			return s.buf[start:i], nil
		case c == '\\':
			s.pos = i
			return s.escaped(start)
		default:
			s.pos = i
			return nil, errSyntax // a control character
		}
	}
	s.pos = len(s.buf)
	return nil, errShort
}

// escaped reads the rest of a string that began at start and has its first escape at pos.
func (s *scanner) escaped(start int) ([]byte, error) {
	s.room = append(s.room[:0], s.buf[start:s.pos]...)
	for s.pos < len(s.buf) {
		from := s.pos
		for s.pos < len(s.buf) && (plain[s.buf[s.pos]] || s.buf[s.pos] >= utf8.RuneSelf) {
			s.pos++
		}
		s.room = append(s.room, s.buf[from:s.pos]...)
		if s.pos == len(s.buf) {
			return nil, errShort
		}
		switch s.buf[s.pos] {
		case '"':
			s.pos++
			if !utf8.Valid(s.room) {
				return nil, errUTF8
			}
			return s.room, nil
		case '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		default:
			return nil, errSyntax
		}
	}
	return nil, errShort
}

func (s *scanner) escape() error {
	if s.pos+1 >= len(s.buf) {
		return errShort
	}
	c := s.buf[s.pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, ok := s.hex(s.pos)
		if !ok {
			return s.wrong(errSyntax)
		}
		s.pos += 6
		if utf16.IsSurrogate(r) {
			low, _ := s.hex(s.pos)
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				s.pos += 6
			}
		}
		s.room = utf8.AppendRune(s.room, r)
		return nil
	default:
		return errSyntax
	}
	s.room = append(s.room, c)
	s.pos += 2
	return nil
}

// hex reads the escape \uXXXX at i.
func (s *scanner) hex(i int) (r rune, ok bool) {
	if i+6 > len(s.buf) || s.buf[i] != '\\' || s.buf[i+1] != 'u' {
		return 0, false
	}
	for _, c := range s.buf[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number reads a whole number.
func (s *scanner) number() (int64, error) {
	s.peek()
	n, rest, ok := parseInt(s.buf[s.pos:])
	if !ok {
		return 0, s.wrong(errNumber)
	}
	if len(rest) > 0 && (rest[0] == '.' || rest[0]|0x20 == 'e') {
		return 0, errNumber // never rounded
	}
	s.pos = len(s.buf) - len(rest)
	return n, nil
}

// parseInt reads the whole number that b begins with, as JSON writes it.
func parseInt(b []byte) (n int64, rest []byte, ok bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	var u uint64
	i := 0
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if u > math.MaxUint64/10-1 {
			return 0, b, false
		}
		u = u*10 + uint64(b[i]-'0')
	}
	switch {
	case i == 0, b[0] == '0' && i > 1:
		return 0, b, false
	case neg && u <= 1<<63:
		return -int64(u), b[i:], true
	case !neg && u <= math.MaxInt64:
		return int64(u), b[i:], true
	}
	return 0, b, false
}

// skip passes over any value.
func (s *scanner) skip() error { return s.skipAt(0) }

func (s *scanner) skipAt(depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	switch c := s.peek(); c {
	case '"':
		_, err := s.text()
		return err
	case '{':
		return s.object(func([]byte) error { return s.skipAt(depth + 1) })
	case '[':
		return s.array(func() error { return s.skipAt(depth + 1) })
	case 't', 'f', 'n':
		if s.literal("true") || s.literal("false") || s.literal("null") {
			return nil
		}
		return s.wrong(errSyntax)
	}
	return s.skipNumber()
}

// skipNumber passes over a number of any size.
func (s *scanner) skipNumber() error {
	digits := func() bool {
		from := s.pos
		for s.pos < len(s.buf) && s.buf[s.pos]-'0' <= 9 {
			s.pos++
		}
		return s.pos > from
	}
	at := func(set string) bool {
		if s.pos < len(s.buf) && bytes.IndexByte([]byte(set), s.buf[s.pos]) >= 0 {
			s.pos++
			return true
		}
		return false
	}
	at("-")
	if !at("0") && !digits() {
		return s.wrong(errSyntax)
	}
	if at(".") && !digits() {
		return s.wrong(errSyntax)
	}
	if at("eE") {
		at("+-")
		if !digits() {
			return s.wrong(errSyntax)
		}
	}
	return nil
}
