package local

import (
	"io"
	"os"
	"strings"
)

const (
	tailBytes = 1 << 14
	tailLines = 20
)

// logSize is the length of a log, 0 where there is none yet.
func logSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// logSince is the end of what was written to a log after it had the given length. What cannot be read is said in its
// place: the text is for a message about something worse.
func logSince(file string, from int64) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	size := logSize(file)
	from = max(from, size-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
