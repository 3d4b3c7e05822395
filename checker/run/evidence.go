package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
	"fenceproof/checker/verdict"
	"fenceproof/checker/wiretap"
	"fenceproof/checker/witness"
	"fenceproof/deploy/local"
)

// Recorded is what the header of a history says about the run, beside seed and plan: enough to judge it again.
type Recorded struct {
	Settings verdict.Settings     `json:"settings"`
	Expect   *verdict.Expectation `json:"expect,omitempty"`
}

// notEvidence lists the tables that say nothing about the system: goose's own.
var notEvidence = []string{"schema_history"}

// evidence is the run's recorder and all its witnesses.
type evidence struct {
	rec  *history.Recorder
	rest func() // ends the signs of life

	mu      sync.Mutex // of the next three
	taps    []*wiretap.Relay
	epoch   int // of the lock log; a planned restore or failover begins the next
	lockLog log // nil between two epochs

	locksOnly bool // there is no paydb and no rail, so nothing of theirs can be missing
	paydb     *witness.Database
	paydbURL  string // for its superuser, past the links
	journal   *witness.Journal
	logs      *witness.Logs
}

func openEvidence(dir, id string, c Config, versions map[string]string) (*evidence, error) {
	planText, err := c.Plan.Write()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(Recorded{c.settings(), c.Expect})
	if err != nil {
		return nil, fmt.Errorf("write down the run's settings: %w", err)
	}
	rec, err := history.Create(filepath.Join(dir, historyDir), history.Header{
		RunID: id, Seed: c.Plan.Seed, Plan: planText, Config: config, Versions: versions, Started: time.Now(),
	})
	if err != nil {
		return nil, fmt.Errorf("begin the history: %w", err)
	}
	return &evidence{rec: rec, rest: showLife(rec), locksOnly: c.locks()}, nil
}

// phase writes down that a phase of the run begins.
func (e *evidence) phase(name string) {
	e.rec.Record(history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpPhase, Msg: name})
}

// failed writes down that the harness itself failed, so that whoever judges the files alone knows it, too.
func (e *evidence) failed(err error) {
	if err != nil {
		e.rec.Record(history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpFailed, Msg: err.Error()})
	}
}

// cut writes down that the run was cut short, and by what.
func (e *evidence) cut(why string) {
	e.rec.Record(history.Run, history.Event{Type: contract.Info, Proc: "harness", Op: history.OpInterrupted, Msg: why})
}

// interpose puts a wiretap on one hop.
func (e *evidence) interpose(from, to, upstream string) (string, io.Closer, error) {
	r, err := wiretap.Listen(wiretap.Config{Link: contract.Link{From: contract.Process(from), To: contract.Process(to)}, Upstream: upstream, Sink: e.rec})
	if err != nil {
		return "", nil, fmt.Errorf("listen on the link: %w", err)
	}
	e.mu.Lock()
	e.taps = append(e.taps, r)
	e.mu.Unlock()
	return r.Addr(), r, nil
}

// log is the witness of a store's own log.
type log interface {
	// Detach ends its epoch, Close its history as well.
	Detach(context.Context) error
	Close(context.Context) error
}

// attach begins to watch the stores, the journal and the logs. It runs before any service has started.
func (e *evidence) attach(ctx context.Context, s *local.Stack) (err error) {
	e.logs = witness.FollowLogs(filepath.Dir(s.LogPath(local.LockServer)), e.rec)
	if e.lockLog, err = e.followLocks(ctx, s, 0); err != nil || e.locksOnly {
		return err
	}
	e.journal = witness.FollowJournal(s.JournalPath(), e.rec)
	if e.paydbURL, err = s.SuperURL(local.PayDB); err != nil {
		return fmt.Errorf("find paydb: %w", err)
	}
	e.paydb, err = e.follow(ctx, s, history.PayDB, local.PayDB, 0)
	return err
}

// follow begins to watch a database.
func (e *evidence) follow(ctx context.Context, s *local.Stack, w history.Witness, name string, epoch int) (*witness.Database, error) {
	url, err := s.SuperURL(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	d, err := witness.Attach(ctx, witness.DatabaseConfig{URL: url, Witness: w, Proc: contract.Process(name), Epoch: epoch, Ignore: notEvidence}, e.rec)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", name, err)
	}
	return d, nil
}

// followLocks begins to watch the lock store, whichever it is.
func (e *evidence) followLocks(ctx context.Context, s *local.Stack, epoch int) (log, error) {
	if urls := s.EtcdURLs(); len(urls) > 0 {
		w, err := witness.AttachEtcd(ctx, witness.EtcdConfig{Endpoints: urls, Proc: contract.Etcd, Epoch: epoch}, e.rec)
		if err != nil {
			return nil, fmt.Errorf("watch etcd: %w", err)
		}
		return w, nil
	}
	d, err := e.follow(ctx, s, history.LockDB, local.LockDB, epoch)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// collect takes what is left once the services have ended, and closes the history. A witness that lost its place has
// said so in the history, and its file gets no trailer: that is the verdict's business, not an error of the harness.
func (e *evidence) collect(ctx context.Context) error {
	e.mu.Lock()
	taps := e.taps
	e.mu.Unlock()
	var errs []error
	for _, t := range taps {
		errs = append(errs, t.Close())
	}
	e.rec.Complete(history.Wiretap)
	if e.paydb != nil {
		err := e.paydb.Close(ctx)
		if errs = append(errs, unlessLost(err)); err == nil {
			e.audit(ctx, e.paydbURL)
		}
	}
	if log := e.takeLockLog(); log != nil { // between two epochs there is none, and the file gets no trailer
		errs = append(errs, unlessLost(log.Close(ctx)))
	}
	if e.locksOnly {
		e.rec.Complete(history.PayDB)
		e.rec.Complete(history.Journal)
	}
	if e.journal != nil {
		errs = append(errs, unlessLost(e.journal.Close(ctx)))
	}
	if e.logs != nil {
		e.logs.Close()
	}
	e.rec.Complete(history.Nemesis)
	e.rest()
	e.rec.Complete(history.Run)
	errs = append(errs, e.rec.Close())
	return errors.Join(errs...)
}

func unlessLost(err error) error {
	if errors.Is(err, witness.ErrLost) {
		return nil
	}
	return err
}
