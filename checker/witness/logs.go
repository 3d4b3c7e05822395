package witness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// How much of a process's log is kept. A log explains and never proves, so a storm may cost lines, but never the disk.
const (
	logsEvery   = 50 * time.Millisecond
	logRate     = 1000     // events per second and process, for ever
	logBurst    = 20_000   // events of a process at once
	logMaxEvent = 16 << 10 // bytes of one line
	logBudget   = 4 << 20  // bytes of a process's log that one look reads
	logBacklog  = 64 << 20 // bytes behind which the middle of a log is passed over
	logReport   = time.Second

	logLastLooks = 32 // looks at the end; a log that still grows then is not followed for ever
)

// EventLeftOut is the Event of a line that tells how much of a process's log was not recorded, in Attrs "lines" and
// "bytes".
const EventLeftOut = "log_left_out"

// Logs records the events in the services' own logs: every JSON line with an "event". All other lines are left alone.
type Logs struct {
	dir  string
	sink Sink
	stop context.CancelFunc
	done chan struct{}
	logs map[string]*serviceLog // by file name; owned by the goroutine until done is closed

	ending sync.Once
}

// serviceLog is the log of one process.
type serviceLog struct {
	proc   contract.Process
	sink   Sink
	tail   tail
	budget bucket

	outLines, outBytes int64 // left out since the last report
	reported           int64 // when that was
}

// FollowLogs starts to record dir/<process>.log of every process, as they come to be; dir may not be there yet.
// Whoever calls it calls Close.
func FollowLogs(dir string, sink Sink) *Logs {
	ctx, stop := context.WithCancel(context.Background())
	l := &Logs{dir: dir, sink: sink, stop: stop, done: make(chan struct{}), logs: map[string]*serviceLog{}}
	go func() {
		defer close(l.done)
		for pause(ctx, logsEvery) {
			l.look()
		}
	}()
	return l
}

// Close records what is left, within the same bounds, stops and marks the history as complete.
func (l *Logs) Close() {
	l.ending.Do(func() {
		l.stop()
		<-l.done
		for n := 0; n < logLastLooks && l.look(); n++ {
		}
		for _, s := range l.logs {
			s.report(true)
			s.tail.close()
		}
		l.sink.Complete(history.Logs)
	})
}

// look reads on in every log, and tells whether any may hold more.
func (l *Logs) look() (more bool) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return false // not there yet; logs prove nothing, so this is nobody's failure
	}
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".log")
		if !isLog || e.IsDir() {
			continue
		}
		s := l.logs[name]
		if s == nil {
			s = &serviceLog{proc: contract.Process(name), sink: l.sink, tail: tail{path: filepath.Join(l.dir, e.Name())},
				budget: bucket{level: logBurst, at: l.sink.Now()}}
			l.logs[name] = s
		}
		more = s.look() || more
	}
	return more
}

// look reads on, and tells whether it stopped before the end.
func (s *serviceLog) look() (more bool) {
	from := s.tail.off
	if size, err := s.tail.look(); err == nil && size-from > logBacklog {
		s.passOver(size)
		from = s.tail.off
	}
	switch err := s.tail.read(logBudget, s.line); {
	case errors.Is(err, errTooLong):
		s.leaveOut(maxLine)
		s.tail.off += maxLine // what follows of it is no JSON, and so is left alone
		more = true
	case err != nil:
		s.tail.restart()
	default:
		more = s.tail.off-from >= logBudget
	}
	s.report(false)
	return more
}

// passOver gives up the middle of a log that grows faster than it is read.
func (s *serviceLog) passOver(size int64) {
	to := size - logBudget
	s.outLines++ // at least
	s.outBytes += to - s.tail.off
	s.tail.off = to
}

func (s *serviceLog) line(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' || !bytes.Contains(line, []byte(`"event"`)) {
		return nil
	}
	if len(line) > logMaxEvent || !s.budget.take(s.sink.Now()) {
		s.leaveOut(len(line))
		return nil
	}
	if e, ok := logEvent(line); ok {
		e.Proc = s.proc
		s.sink.Record(history.Logs, e)
	}
	return nil
}

func (s *serviceLog) leaveOut(n int) {
	s.outLines++
	s.outBytes += int64(n)
}

// report says how much was left out, at most once per logReport unless it is the end.
func (s *serviceLog) report(end bool) {
	now := s.sink.Now()
	if s.outLines == 0 || !end && now-s.reported < int64(logReport) {
		return
	}
	s.sink.Record(history.Logs, history.Event{Type: contract.Info, Proc: s.proc, Op: history.OpLog, Event: EventLeftOut,
		Attrs: map[string]string{"lines": strconv.FormatInt(s.outLines, 10), "bytes": strconv.FormatInt(s.outBytes, 10)},
		Msg:   "the log grew faster than it is recorded; this much was left out"})
	s.outLines, s.outBytes, s.reported = 0, 0, now
}

// logEvent is the event in a line, and whether there is one. Numbers, tokens above all, keep the very digits that the
// service wrote.
func logEvent(line []byte) (history.Event, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return history.Event{}, false
	}
	e := history.Event{Type: contract.Info, Op: history.OpLog}
	if json.Unmarshal(fields["event"], &e.Event) != nil || e.Event == "" {
		return history.Event{}, false
	}
	for name, raw := range fields {
		value := text(raw)
		switch name {
		case "event":
		case "msg":
			e.Msg = value
		default:
			if e.Attrs == nil {
				e.Attrs = make(map[string]string, len(fields))
			}
			e.Attrs[name] = value
		}
	}
	return e, true
}

// text is a JSON string's content, and any other JSON value as it was written.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil && raw[0] == '"' {
		return s
	}
	return string(raw)
}

// bucket bounds a rate: logBurst at once, logRate per second in the long run.
type bucket struct {
	level float64
	at    int64 // nanoseconds
}

func (b *bucket) take(now int64) bool {
	b.level = min(logBurst, b.level+float64(now-b.at)*logRate/1e9)
	b.at = now
	if b.level < 1 {
		return false
	}
	b.level--
	return true
}
