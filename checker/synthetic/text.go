package synthetic

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// id draws a UUID.
func (w *world) id() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], w.rng.Uint64())
	binary.BigEndian.PutUint64(b[8:], w.rng.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var s [36]byte
	for i, part := range [][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		at := part[0]*2 + i
		hex.Encode(s[at:], b[part[0]:part[1]])
		if i > 0 {
			s[at-1] = '-'
		}
	}
	return string(s[:])
}

// micros rounds a time to what PostgreSQL keeps.
func micros(t int64) time.Time { return epoch.Add(time.Duration(t)).Truncate(time.Microsecond) }

// stamp is a timestamptz as PostgreSQL writes it.
func stamp(t int64) string { return micros(t).Format("2006-01-02 15:04:05.999999") + "+00" }

// rfc is a time as the services write it.
func rfc(t int64) string { return micros(t).Format("2006-01-02T15:04:05.999999Z") }

func dec(n int64) string { return strconv.FormatInt(n, 10) }

type row = map[string]string

// with is r with some columns changed: pairs of name and value, "" for NULL. r itself stays, as events hold it.
func with(r row, pairs ...string) row {
	out := make(row, len(r)+len(pairs)/2)
	for k, v := range r {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		if out[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
			delete(out, pairs[i])
		}
	}
	return out
}
