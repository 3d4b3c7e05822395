package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"fenceproof/deploy/process"
)

// Limits of starting and stopping: far beyond what either takes, so that only a hang meets them.
const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
	look       = 5 * time.Millisecond
)

// Start starts the server, on the same data and ports each time. It returns when the member is at its work: a single one
// when it is healthy, one of a cluster when it answers the others, because whether it can be healthy is theirs to say
// (AwaitHealthy waits for that). A server that ends instead is an error with the end of its log.
func (m *Member) Start(ctx context.Context) error {
	if m.Running() {
		return fmt.Errorf("start %s: it is running", m.name)
	}
	ready := m.Healthy
	if len(m.cluster) > 1 {
		ready = m.answersPeers
	}
	from := size(m.log)
	var err error
	if m.proc, err = m.launcher.Launch(ctx, m.command()); err == nil {
		err = m.await(ctx, "does not become ready", ready)
	}
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("start %s: %w\n%s", m.name, err, since(m.log, from)), m.Crash(context.WithoutCancel(ctx)))
}

// AwaitHealthy waits until the member is healthy: it knows a leader and a majority agrees to a read.
func (m *Member) AwaitHealthy(ctx context.Context) error {
	if !m.Running() {
		return fmt.Errorf("wait for %s to be healthy: it does not run", m.name)
	}
	if err := m.await(ctx, "does not become healthy", m.Healthy); err != nil {
		return fmt.Errorf("wait for %s: %w", m.name, err)
	}
	return nil
}

// await asks again and again until there is no objection.
func (m *Member) await(ctx context.Context, complaint string, objection func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-m.proc.Done():
			cancel() // what answers on its port is a stranger
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		err := objection(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if !m.Running() {
				return fmt.Errorf("its server ended: %s", m.proc.Status())
			}
			return errors.Join(fmt.Errorf("it %s: %w", complaint, context.Cause(ctx)), err)
		case <-tick.C:
		}
	}
}

// probe keeps no connections: each question is one of its own.
var probe = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}

// Healthy asks the member whether it knows a leader and a majority agrees to a read; nil when so.
func (m *Member) Healthy(ctx context.Context) error { return m.ask(ctx, m.URL()+"/health") }

// answersPeers asks the member as another one would.
func (m *Member) answersPeers(ctx context.Context) error {
	return m.ask(ctx, m.listenPeerURL()+"/version")
}

func (m *Member) ask(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := probe.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
	if err != nil {
		return fmt.Errorf("ask %s for %s: %w", m.name, url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", url, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}

// Process is the server as it was started last; nil before the first start.
func (m *Member) Process() process.Process { return m.proc }

// Running tells whether the server lives. A paused one does.
func (m *Member) Running() bool {
	if m.proc == nil {
		return false
	}
	select {
	case <-m.proc.Done():
		return false
	default:
		return true
	}
}

// Stop ends the server in order. A paused one must be resumed first.
func (m *Member) Stop(ctx context.Context) error {
	if !m.Running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := process.Stop(ctx, m.proc, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", m.name, err)
	}
	return nil
}

// Crash ends the server with SIGKILL and waits until it is gone: the data may be replaced by other data then. What was
// committed is there after the next Start.
func (m *Member) Crash(ctx context.Context) error {
	if !m.Running() {
		return nil
	}
	if err := process.Kill(ctx, m.proc); err != nil {
		return fmt.Errorf("crash %s: %w", m.name, err)
	}
	return nil
}

// Pause stops the server (SIGSTOP) and returns when every thread of it is seen stopped.
func (m *Member) Pause(ctx context.Context) error {
	if err := process.Pause(ctx, m.proc); err != nil {
		return fmt.Errorf("pause %s: %w", m.name, err)
	}
	return nil
}

// Resume lets a paused server run on.
func (m *Member) Resume(ctx context.Context) error {
	if err := process.Resume(ctx, m.proc); err != nil {
		return fmt.Errorf("resume %s: %w", m.name, err)
	}
	return nil
}

// size is the length of a log, 0 where there is none.
func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// tail is how much of a log an error shows.
const tail = 1 << 13

// since is the end of what was written to a log after the given length.
func since(file string, from int64) string {
	if file == "" {
		return "(its log was not kept)"
	}
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	end := size(file)
	from = max(from, end-tail)
	text, err := io.ReadAll(io.NewSectionReader(f, from, end-from))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}
