package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// section is one table of the page.
type section struct {
	title, intro string
	head         []string   // the columns; nil: what, measured, bar, whether it is met
	rows         [][]string // as head
	conditions   string
}

func (s section) markdown() string {
	var b strings.Builder
	head := s.head
	if head == nil {
		head = []string{"what", "measured", "bar", ""}
	}
	fmt.Fprintf(&b, "### %s\n\n%s\n\n| %s |\n|%s\n", s.title, s.intro, strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, r := range s.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
	}
	fmt.Fprintf(&b, "\n%s\n", s.conditions)
	return b.String()
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "**missed**"
}

// machine is what the numbers depend on besides the code.
type machine struct {
	at   time.Time
	load string
}

func conditions() machine {
	m := machine{at: time.Now().UTC(), load: "unknown"}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.load, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

func (m machine) until(end machine) string {
	return fmt.Sprintf("%s, %d cores, %s %s/%s; load average %s before, %s after.",
		m.at.Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, m.load, end.load)
}

// replace puts text where the page has the named section, between its two marks.
func replace(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	from, to := "<!-- measured: "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(page), from)
	_, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		return fmt.Errorf("write the numbers into %s: it has no place for them between %s and %s", path, strings.TrimSpace(from), to)
	}
	if err := os.WriteFile(path, []byte(before+from+text+to+after), 0o644); err != nil {
		return fmt.Errorf("write the numbers: %w", err)
	}
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// thousands writes n with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
