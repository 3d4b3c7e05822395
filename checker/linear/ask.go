package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// name is the name under which a process checks one key.
const name = "fenceproof-linear-key"

// mercy is how long a checker may go on after its budget of time, to say that it is over, before it is killed.
const mercy = 3 * time.Second

// ask checks one key in a process of its own. A process that does not come to a conclusion, however it ends, leaves the
// key open. The error is that none could be started.
func ask(ctx context.Context, t *task, frame []byte, rest io.Reader) (finding, error) {
	if !asked.Load() {
		return finding{}, errors.New("check a key: the program must call linear.RunIfAsked before anything else")
	}
	text, err := json.Marshal(t)
	if err != nil {
		return finding{}, fmt.Errorf("check a key: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.Budget.Time+mercy)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe") // this very program, even where its file has been replaced
	cmd.Args = []string{name}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interruption from the terminal is for whoever asked
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe() // it stays open: its end tells the checker that nobody waits any more
	if err != nil {
		return finding{}, fmt.Errorf("check a key: %w", err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		return finding{}, fmt.Errorf("check a key: %w", err)
	}
	if started != nil {
		started(cmd.Process)
	}
	_, writeErr := io.Copy(in, io.MultiReader(bytes.NewReader(append(text, '\n')), bytes.NewReader(frame), rest))
	waitErr := cmd.Wait()
	var f finding
	if err := json.Unmarshal(out.Bytes(), &f); waitErr != nil || err != nil {
		return finding{Open: failure(ctx, t, errors.Join(waitErr, writeErr, err), complaints.String())}, nil
	}
	return f, nil
}

// started is told of every checker; tests end some of them.
var started func(*os.Process)

// failure says how a checker ended that came to no conclusion.
func failure(ctx context.Context, t *task, err error, complaints string) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("its checker did not end within its %s and was killed", t.Budget.Time)
	case strings.Contains(complaints, "out of memory") || strings.Contains(complaints, "cannot allocate memory"):
		return outOfMemory(t.Budget)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(complaints), "\n")
	if first != "" {
		first = " (" + first + ")"
	}
	return fmt.Sprintf("its checker ended without a conclusion: %v%s", err, first)
}

func outOfMemory(b Budget) string {
	return fmt.Sprintf("its checker ran out of its %d MiB of memory", b.Memory>>20)
}
