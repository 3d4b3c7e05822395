package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"fenceproof/deploy/process"
	"fenceproof/deploy/vskew"
)

// tellerVariable makes this program one that only says what time it is.
const tellerVariable = "FENCEPROOF_TELLER"

// How often the teller says its time, and how long it lives by itself.
const (
	tellEvery = 20 * time.Millisecond
	tellFor   = 30 * time.Second
)

// RunIfAsked turns a process that was started to say its time into one that does, and returns at once in any other. Every
// program that looks at a machine calls it first of all.
func RunIfAsked() {
	if os.Getenv(tellerVariable) == "" {
		return
	}
	for end := time.Now().Add(tellFor); time.Now().Before(end); time.Sleep(tellEvery) {
		if _, err := fmt.Println(time.Now().UnixNano()); err != nil {
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// near is how late a line of the teller may come on a busy machine.
const near = 10 * time.Second

// tellsMovedTime moves the clock of a program that says its time, and returns nil when it was heard to say the moved one.
func (w *ward) tellsMovedTime(ctx context.Context, by time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, near)
	defer cancel()
	log := filepath.Join(w.dir, "teller")
	p, err := w.warden.Launch(ctx, process.Command{Path: "/proc/self/exe", Env: []string{tellerVariable + "=1"}, Dir: w.dir, Log: log})
	if err != nil {
		return fmt.Errorf("start a program that says its time: %w", err)
	}
	defer func() { err = errors.Join(err, process.Kill(context.WithoutCancel(ctx), p)) }()
	for _, want := range []time.Duration{0, by} {
		if err := vskew.Move(ctx, p.Pid(), want); err != nil {
			return err
		}
		if err := heard(ctx, log, want); err != nil {
			return err
		}
	}
	return nil
}

// heard waits until the last line of a log is a time that is by away from the true one.
func heard(ctx context.Context, log string, by time.Duration) error {
	for {
		said, err := lastTime(log)
		off := time.Until(said) - by
		if err == nil && off.Abs() < near {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("a program whose clock was moved by %s does not say what time it is: %w", by, err)
			}
			return fmt.Errorf("a program whose clock was moved by %s says that it is %s, which is off by %s", by, said.UTC().Format(time.RFC3339), off.Round(time.Second))
		case <-time.After(tellEvery):
		}
	}
}

// lastTime is the last whole line of a log, as a time.
func lastTime(log string) (time.Time, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return time.Time{}, err
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(lines) < 2 {
		return time.Time{}, errors.New("it has said nothing yet")
	}
	ns, err := strconv.ParseInt(string(lines[len(lines)-2]), 10, 64)
	return time.Unix(0, ns), err
}
