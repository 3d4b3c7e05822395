package history

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// AppendEvent appends e as one JSON object, without a line break. The text is exactly what encoding/json makes of e
// with SetEscapeHTML(false), at several times its speed: a run records tens of thousands of events a second on the
// machine that it measures.
func AppendEvent(b []byte, e *Event) []byte {
	b = append(b, `{"i":`...)
	b = strconv.AppendInt(b, e.I, 10)
	b = append(b, `,"w":`...)
	b = appendString(b, string(e.W))
	b = append(b, `,"t":`...)
	b = strconv.AppendInt(b, e.T, 10)
	b = append(b, `,"type":`...)
	b = appendString(b, string(e.Type))
	b = append(b, `,"proc":`...)
	b = appendString(b, string(e.Proc))
	b = append(b, `,"op":`...)
	b = appendString(b, string(e.Op))
	b = appendCall(b, e)
	b = appendFacts(b, e)
	return append(b, '}')
}

// appendCall appends the fields of a wiretap event.
func appendCall(b []byte, e *Event) []byte {
	b = optString(b, `,"stage":`, string(e.Stage))
	b = optInt(b, `,"call":`, e.Call)
	b = optInt(b, `,"dup_of":`, e.DupOf)
	b = optString(b, `,"link":`, e.Link)
	b = optString(b, `,"key":`, e.Key)
	b = optString(b, `,"payout":`, e.Payout)
	b = optString(b, `,"account":`, e.Account)
	b = optString(b, `,"owner":`, e.Owner)
	b = optString(b, `,"session":`, e.Session)
	b = optToken(b, `,"token":"`, e.Token)
	b = optInt(b, `,"status":`, int64(e.Status))
	b = optString(b, `,"code":`, string(e.Code))
	b = optString(b, `,"outcome":`, string(e.Outcome))
	b = optToken(b, `,"granted":"`, e.Granted)
	b = optToken(b, `,"highest":"`, e.Highest)
	b = optString(b, `,"req":`, e.Req)
	return optString(b, `,"res":`, e.Res)
}

// appendFacts appends the fields of all other witnesses.
func appendFacts(b []byte, e *Event) []byte {
	b = optString(b, `,"lsn":`, e.LSN)
	b = optInt(b, `,"xid":`, int64(e.XID))
	b = optInt(b, `,"epoch":`, int64(e.Epoch))
	b = optInt(b, `,"committed":`, e.Committed)
	if len(e.Changes) > 0 {
		b = append(b, `,"changes":[`...)
		for i := range e.Changes {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendChange(b, &e.Changes[i])
		}
		b = append(b, ']')
	}
	b = optInt(b, `,"covers":`, e.Covers)
	b = optInt(b, `,"amount":`, e.Amount)
	b = optString(b, `,"currency":`, e.Currency)
	b = optString(b, `,"rail_ref":`, e.RailRef)
	b = optInt(b, `,"window":`, int64(e.Window))
	b = optString(b, `,"phase":`, e.Phase)
	b = optString(b, `,"target":`, e.Target)
	b = optString(b, `,"event":`, e.Event)
	b = optMap(b, `,"attrs":`, e.Attrs)
	return optString(b, `,"msg":`, e.Msg)
}

func appendChange(b []byte, c *Change) []byte {
	b = append(b, `{"table":`...)
	b = appendString(b, c.Table)
	b = append(b, `,"kind":`...)
	b = appendString(b, string(c.Kind))
	b = optMap(b, `,"old":`, c.Old)
	b = optMap(b, `,"new":`, c.New)
	return append(b, '}')
}

func optString(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, name...), s)
}

func optInt(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

// optToken appends a number as a decimal string; name ends with its opening quote.
func optToken(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return append(strconv.AppendInt(append(b, name...), n, 10), '"')
}

// optMap appends a map, its names sorted, so that equal events are equal lines.
func optMap(b []byte, name string, m map[string]string) []byte {
	if len(m) == 0 {
		return b
	}
	var room [32]string // the rows of every table fit, so that sorting allocates nothing
	names := room[:0]
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	b = append(append(b, name...), '{')
	for i, k := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendString(b, m[k])
	}
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// plain marks the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, as in encoding/json.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = appendEscape(append(b, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(append(b, s[start:i]...), `\ufffd`...)
			start = i + n
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[start:i]...), `\u202`...)
			b = append(b, hexDigits[r&0xf])
			start = i + n
		}
		i += n
	}
	return append(append(b, s[start:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}
