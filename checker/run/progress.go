package run

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// How often the status is shown.
const (
	liveEvery  = 200 * time.Millisecond
	plainEvery = 5 * time.Second
)

// progress tells a person what the run is doing: a line per phase and, in the long ones, a status line that is
// rewritten in place on a terminal and printed anew every 5 s elsewhere.
type progress struct {
	out         io.Writer
	live, quiet bool
	begun       time.Time
	own         map[string]string // what the workload's own phases do

	mu     sync.Mutex
	status bool // a status line stands on the terminal's current line
}

func newProgress(c Config) *progress {
	return &progress{out: c.Out, live: c.Live && !c.Quiet, quiet: c.Quiet, begun: time.Now()}
}

// begin says that a phase begins.
func (p *progress) begin(phase string) { p.say(phase, "%s", cmp.Or(p.own[phase], phases[phase])) }

// workload takes what the phases of a workload do. It comes before the first of them.
func (p *progress) workload(own map[string]string) { p.own = own }

// phases says in a few words what each phase does that is the same for every workload.
var phases = map[string]string{
	"boot":    "starting databases and services",
	"collect": "stopping the services and taking the rest of the evidence",
	"judge":   "judging the history",
	"report":  "writing the report",
}

// note is say for a text made elsewhere.
func (p *progress) note(phase, text string) { p.say(phase, "%s", text) }

// say prints one line.
func (p *progress) say(phase, format string, args ...any) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.out, "%6.1fs  %-8s %s\n", time.Since(p.begun).Seconds(), phase, fmt.Sprintf(format, args...))
}

// clear takes the status line off the terminal. The caller holds mu.
func (p *progress) clear() {
	if p.status {
		fmt.Fprint(p.out, "\r\x1b[2K")
		p.status = false
	}
}

// watch shows the status until stop is called.
func (p *progress) watch(status func() string) (stop func()) {
	if p.quiet {
		return func() {}
	}
	every := plainEvery
	if p.live {
		every = liveEvery
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.show(status())
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (p *progress) show(status string) {
	if !p.live {
		p.say("", "%s", status)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprint(p.out, cut(fmt.Sprintf("%6.1fs  %s", time.Since(p.begun).Seconds(), status), p.width()))
	p.status = true
}

// width is how many columns the terminal has now; 80 when nobody knows.
func (p *progress) width() int {
	if f, ok := p.out.(interface{ Fd() uintptr }); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return 80
}

// cut shortens a line so that it does not wrap: a line that has wrapped cannot be rewritten in place.
func cut(line string, width int) string {
	r := []rune(line)
	if len(r) < width {
		return line
	}
	return string(r[:max(0, width-2)]) + "…"
}

// status is the run in one line: violations, operations per second since the last look, how the workload stands, faults.
func (r *state) status() string {
	c := r.judge.Counts()
	var ops int64
	for _, n := range c.Operations {
		ops += n
	}
	rate := r.rate.per(ops)
	parts := []string{fmt.Sprintf("%d violations", r.judge.Found()), fmt.Sprintf("%.0f ops/s", rate)}
	parts = append(parts, r.load.status()...)
	n := r.engine.Status()
	if len(n.Active) > 0 {
		parts = append(parts, "now "+strings.Join(n.Active, ", "))
	}
	parts = append(parts, fmt.Sprintf("%d faults", n.Windows))
	return strings.Join(parts, " · ")
}

// meter turns a growing count into a rate.
type meter struct {
	at   time.Time
	last int64
}

func (m *meter) per(n int64) float64 {
	now := time.Now()
	d := now.Sub(m.at).Seconds()
	delta := float64(n - m.last)
	m.at, m.last = now, n
	if d <= 0 {
		return 0
	}
	return delta / d
}
