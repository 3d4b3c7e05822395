package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
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
	if _, err := unread(h).Write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unread writes for a reader who may leave: what is written then is for nobody, and no failure.
type unread struct{ w io.Writer }

// terminal is standard output, whose width is asked for.
type terminal struct{ unread }

func (terminal) Fd() uintptr { return os.Stdout.Fd() }

func (u unread) Write(b []byte) (int, error) {
	n, err := u.w.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}

// readersMayLeave keeps SIGPIPE from ending the process in the middle of a run: whoever reads its output may be gone first,
// as a tee is after Ctrl-C. What is written from then on is for nobody. Caught and not ignored, it is not passed on to children.
func readersMayLeave() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
