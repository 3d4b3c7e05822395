package run

import (
	"bytes"
	"strings"
	"testing"
)

func TestALineThatWouldWrapIsCut(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"short", 80, "short"},
		{"12345", 5, "123…"},
		{"ä·→x·", 5, "ä·→…"},
		{"anything", 1, "…"},
		{"anything", 0, "…"},
	} {
		if got := cut(c.line, c.width); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

func TestWithoutATerminalThereAreNoControlCodes(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(Config{Out: &out})
	p.begin("drive")
	p.show("7 ops/s")
	p.begin("drain")
	if s := out.String(); strings.ContainsAny(s, "\x1b\r") || strings.Count(s, "\n") != 3 {
		t.Errorf("printed %q", s)
	}
}

func TestOnATerminalTheStatusLineGivesWayToTheNextLine(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(Config{Out: &out, Live: true})
	p.show("7 ops/s")
	p.begin("drain")
	if s := out.String(); !strings.Contains(s, "7 ops/s\r\x1b[2K") {
		t.Errorf("printed %q", s)
	}
}

func TestQuietPrintsNothing(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(Config{Out: &out, Live: true, Quiet: true})
	p.begin("drive")
	p.watch(func() string { return "status" })()
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
}
