package reports

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// keyPrefix begins the lock keys of accounts.
const keyPrefix = "payout:"

// micros turns nanoseconds of the harness's clock into the page's microseconds.
func micros(ns int64) int64 { return ns / 1000 }

// accountOfKey is the account whose lock key this is, "" for the key of something else.
func accountOfKey(key string) string {
	id, ok := strings.CutPrefix(key, keyPrefix)
	if !ok {
		return ""
	}
	return id
}

// token writes a fencing token; 0 stands for none.
func token(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// clip shortens a text of the evidence to at most n bytes, at a character's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// decimals of the currencies that do not have two.
var decimals = map[string]int{"JPY": 0, "KRW": 0, "CLP": 0, "ISK": 0, "VND": 0, "BHD": 3, "KWD": 3, "OMR": 3, "TND": 3, "JOD": 3}

// money writes minor units as an amount: 1250 EUR → "12.50 EUR".
func money(minor int64, currency string) string {
	places, ok := decimals[currency]
	if !ok {
		places = 2
	}
	sign, digits := "", strconv.FormatInt(minor, 10)
	if minor < 0 {
		sign, digits = "−", digits[1:]
	}
	if places > 0 {
		if len(digits) <= places {
			digits = strings.Repeat("0", places+1-len(digits)) + digits
		}
		digits = digits[:len(digits)-places] + "." + digits[len(digits)-places:]
	}
	return strings.TrimSpace(sign + digits + " " + currency)
}

// minor reads an amount of the evidence and writes it as money; what is no number stays as it is.
func minor(s, currency string) string {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return s
	}
	return money(n, currency)
}

// count writes a number with its noun: count(1, "write", "writes").
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return group(n) + " " + many
}

// group writes a number with thin spaces between its thousands.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	if n < 0 || len(s) < 5 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// seconds writes a time of the run: "12.345 s".
func seconds(us int64) string { return fmt.Sprintf("%.3f s", float64(us)/1e6) }

// span writes a length of time as short as it can be read: "480 µs", "12 ms", "1.42 s", "3 min 05 s".
func span(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%d µs", us)
	case us < 1_000_000:
		return fmt.Sprintf("%d ms", us/1000)
	case us < 120_000_000:
		return fmt.Sprintf("%.2f s", float64(us)/1e6)
	}
	return fmt.Sprintf("%d min %02d s", us/60_000_000, us/1_000_000%60)
}

// short is the beginning of an id, enough to tell two apart by eye in a sentence.
func short(id string) string {
	if len(id) == 36 && id[8] == '-' {
		return id[:8]
	}
	return clip(id, 24)
}

// list joins words as a sentence does: "a", "a and b", "a, b and c".
func list(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
