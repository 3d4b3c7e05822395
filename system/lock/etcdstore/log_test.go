package etcdstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// logged is a log that keeps what was said.
type logged struct {
	mu    sync.Mutex
	lines []line
}

type line struct {
	level slog.Level
	text  string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line{r.Level, text})
	return nil
}

// at lists what was said at a level with some words in it.
func (l *logged) at(level slog.Level, words string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.lines {
		if x.level == level && strings.Contains(x.text, words) {
			all = append(all, x.text)
		}
	}
	return all
}
