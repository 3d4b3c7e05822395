package main

import (
	"bytes"
	"io"
	"unicode"
)

// harmless writes text for a terminal. Evidence may say anything, and a terminal obeys control characters: they come out
// as U+FFFD, and so do those that turn the direction of reading.
type harmless struct{ w io.Writer }

func (h harmless) Write(b []byte) (int, error) {
	text := bytes.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, b)
	if _, err := h.w.Write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}
