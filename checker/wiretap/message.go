package wiretap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// errRefused is what the relay answers 400 to itself: it cannot tell where such a message ends.
var errRefused = errors.New("refused by the relay")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// message is one request or answer while it passes. Its slices are used again for the next one on the connection.
type message struct {
	raw  []byte // what is passed on, byte for byte
	body []byte // the body without its framing, in raw or in room
	room []byte // where chunks are put together

	line    string // the request line or status line
	length  int64  // Content-Length, -1 without
	chunked bool
	closes  bool // Connection: close
	keeps   bool // Connection: keep-alive
	expects bool // Expect: 100-continue
	owner   string
	token   string
}

// readHead reads the first line and the header fields. Blank lines before them are passed over. What first thinks of
// the first line is known before more is read: who does not speak HTTP may never send an empty line.
func (m *message) readHead(in *bufio.Reader, first func() error) error {
	*m = message{raw: m.raw, room: m.room, length: -1}
	from, blank := len(m.raw), 0
	for {
		start := len(m.raw)
		line, err := m.readLine(in, from+MaxHead)
		if err != nil {
			return err
		}
		switch {
		case m.line == "" && len(line) == 0:
			if m.raw, blank = m.raw[:start], blank+1; blank > 8 {
				return refused("the message has no first line")
			}
		case m.line == "":
			m.line = string(line)
			if err := first(); err != nil {
				return err
			}
		case len(line) == 0:
			return nil
		default:
			if err := m.field(line); err != nil {
				return err
			}
			if m.expects && isExpect(line) {
				m.raw = m.raw[:start] // answered here
			}
		}
	}
}

// readLine appends the next line to raw and returns it without its line break.
func (m *message) readLine(in *bufio.Reader, limit int) ([]byte, error) {
	start := len(m.raw)
	for {
		part, err := in.ReadSlice('\n')
		m.raw = append(m.raw, part...)
		if len(m.raw) > limit {
			return nil, refused("the head of the message has more than %d bytes", MaxHead)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return nil, noEOF(err, len(m.raw) > 0)
		}
		line := bytes.TrimSuffix(m.raw[start:], []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), nil
	}
}

// noEOF makes the end of a stream an error where something had begun.
func noEOF(err error, begun bool) error {
	if err == io.EOF && begun {
		return io.ErrUnexpectedEOF
	}
	return err
}

// field reads the one header field in line, where it matters here.
func (m *message) field(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	switch {
	case !ok, len(name) == 0, name[0] == ' ', name[0] == '\t':
		return nil // a folded line or none at all: the server's business
	case bytes.HasSuffix(name, []byte(" ")), bytes.HasSuffix(name, []byte("\t")):
		return refused("the header name %q ends with a space", name) // servers differ in what they make of it
	}
	value = bytes.Trim(value, " \t")
	switch {
	case is(name, "Content-Length"):
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 || value[0] == '+' || m.length >= 0 && m.length != n {
			return refused("Content-Length %q says nothing", value)
		}
		m.length = n
	case is(name, "Transfer-Encoding"):
		if m.chunked || !is(value, "chunked") {
			return refused("Transfer-Encoding %q is not known here", value)
		}
		m.chunked = true
	case is(name, "Connection"):
		for token := range bytes.SplitSeq(value, []byte(",")) {
			token = bytes.Trim(token, " \t")
			m.closes = m.closes || is(token, "close")
			m.keeps = m.keeps || is(token, "keep-alive")
		}
	case is(name, "Expect"):
		m.expects = isExpect(line)
	case is(name, "X-Owner-Id") && m.owner == "":
		m.owner = string(value)
	case is(name, "X-Fencing-Token") && m.token == "":
		m.token = string(value)
	}
	return nil
}

func is(b []byte, word string) bool {
	return len(b) == len(word) && strings.EqualFold(string(b), word)
}

func isExpect(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	return is(name, "Expect") && is(bytes.Trim(value, " \t"), "100-continue")
}

// persistent tells whether the connection goes on after this message, as far as it has a say.
func (m *message) persistent(version string) bool {
	if version == "HTTP/1.0" {
		return m.keeps && !m.closes
	}
	return !m.closes
}

// readBody reads what the head announced. limit is in bytes of body; untilEOF is for answers whose end is the
// connection's end.
func (m *message) readBody(in *bufio.Reader, limit int64, untilEOF bool) error {
	switch {
	case m.chunked && m.length >= 0:
		return refused("both Content-Length and Transfer-Encoding")
	case m.chunked:
		return m.readChunks(in, limit)
	case m.length > limit:
		return refused("the body has %d bytes, the limit is %d", m.length, limit)
	case m.length >= 0:
		start := len(m.raw)
		err := m.readN(in, m.length)
		m.body = m.raw[start:]
		return err
	case untilEOF:
		start := len(m.raw)
		for {
			if int64(len(m.raw)-start) > limit {
				return refused("the body has more than %d bytes", limit)
			}
			switch err := m.readN(in, 4096); err {
			case nil:
			case io.EOF, io.ErrUnexpectedEOF:
				m.body = m.raw[start:]
				return nil
			default:
				return err
			}
		}
	}
	return nil
}

// readN appends the next n bytes to raw: what did come, if it is less.
func (m *message) readN(in *bufio.Reader, n int64) error {
	const step = 256 << 10 // never believe an announcement with memory
	for n > 0 {
		part := int(min(n, step))
		m.raw = slices.Grow(m.raw, part)
		got, err := io.ReadFull(in, m.raw[len(m.raw):len(m.raw)+part])
		m.raw = m.raw[:len(m.raw)+got]
		if err != nil {
			return noEOF(err, true)
		}
		n -= int64(part)
	}
	return nil
}

func (m *message) readChunks(in *bufio.Reader, limit int64) error {
	m.room = m.room[:0]
	defer func() { m.body = m.room }()
	for {
		line, err := m.readLine(in, len(m.raw)+4096)
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.Trim(digits, " \t")), 16, 63)
		if err != nil {
			return refused("the chunk length %q is none", digits)
		}
		if n == 0 {
			break
		}
		if int64(n) > limit-int64(len(m.room)) {
			return refused("the body has more than %d bytes", limit)
		}
		start := len(m.raw)
		if err := m.readN(in, int64(n)); err != nil {
			return err
		}
		m.room = append(m.room, m.raw[start:]...)
		if line, err = m.readLine(in, len(m.raw)+4096); err != nil {
			return err
		}
		if len(line) > 0 {
			return refused("a chunk is longer than it says")
		}
	}
	for end := len(m.raw) + MaxHead; ; { // trailer fields
		line, err := m.readLine(in, end)
		if err != nil || len(line) == 0 {
			return err
		}
	}
}

// readRequest reads a whole request. goOn is called between head and body where the client waits for a 100.
func (m *message) readRequest(in *bufio.Reader, goOn func() error) error {
	m.raw = m.raw[:0]
	if err := m.readHead(in, m.checkRequest); err != nil {
		return err
	}
	if m.expects && m.length <= MaxBody {
		if err := goOn(); err != nil {
			return err
		}
	}
	return m.readBody(in, MaxBody, false)
}

func (m *message) checkRequest() error {
	method, _, version := m.request()
	if method == "" || method == "CONNECT" || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return refused("%.100q is no request of HTTP/1.1", m.line)
	}
	return nil
}

// asksForNothing tells whether it is HTTP's no-op, OPTIONS *, which asks whether anybody is there. It is about the
// connection, so the relay answers it: no server hears of it, and no history.
func (m *message) asksForNothing() bool {
	method, target, _ := m.request()
	return method == "OPTIONS" && target == "*"
}

// request cuts the request line.
func (m *message) request() (method, target, version string) {
	method, rest, _ := strings.Cut(m.line, " ")
	i := strings.LastIndexByte(rest, ' ')
	if i < 0 {
		return "", "", ""
	}
	return method, rest[:i], rest[i+1:]
}

// readAnswer reads a whole answer to a request of method, interim ones (1xx) before it included. On an error raw is
// what had come; the status is then 0.
func (m *message) readAnswer(in *bufio.Reader, method string) (status int, version string, err error) {
	m.raw = m.raw[:0]
	for status < 200 && status != 101 {
		if len(m.raw) > MaxHead {
			return 0, "", refused("the answer has too many interim ones before it")
		}
		if err := m.readHead(in, func() error {
			if status, version = m.status(); status == 0 {
				return refused("%.100q is no status line of HTTP/1.1", m.line)
			}
			return nil
		}); err != nil {
			return 0, "", noEOF(err, len(m.raw) > 0)
		}
	}
	if method == "HEAD" || status == 101 || status == 204 || status == 304 {
		return status, version, nil
	}
	if err := m.readBody(in, MaxAnswer, true); err != nil {
		return 0, "", err
	}
	return status, version, nil
}

// status cuts the status line; 0 where it is none.
func (m *message) status() (int, string) {
	version, rest, _ := strings.Cut(m.line, " ")
	code, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	if err != nil || len(code) != 3 || n < 100 || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, ""
	}
	return n, version
}

// framed tells whether the answer's end was announced, so that the connection can go on.
func (m *message) framed(method string, status int) bool {
	return status != 101 && (m.chunked || m.length >= 0 || method == "HEAD" || status == 204 || status == 304)
}

// shrink gives back the memory of a giant.
func (m *message) shrink() {
	if cap(m.raw)+cap(m.room) > 1<<20 {
		*m = message{}
	}
}
