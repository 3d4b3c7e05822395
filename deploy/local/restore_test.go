package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fenceproof/deploy/etcd"
	"fenceproof/deploy/local/warden"
)

// grants has the lock server grant n keys, each to a session of its own, and gives the last token. Where the server does not
// know whether it was done, as it does not while etcd has an election, another key is asked for.
func (s *Stack) grants(t *testing.T, n int) (token int64) {
	t.Helper()
	base := "http://" + s.publicAddress(LockServer) + "/v1"
	post := func(path, body string, into any) (known bool) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Owner-Id", "tester")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		switch {
		case err == nil && res.StatusCode == http.StatusServiceUnavailable:
			return false
		case err != nil || res.StatusCode/100 != 2 || json.Unmarshal(text, into) != nil:
			t.Fatalf("%s was answered %d: %s %v", path, res.StatusCode, text, err)
		}
		return true
	}
	for range n {
		await(t, "a key to be granted", func() bool {
			var session struct{ SessionID string }
			var grant struct{ FencingToken int64 }
			done := post("/sessions", `{"ownerId":"tester","ttlMillis":60000}`, &session) &&
				post("/locks/"+session.SessionID+"/acquire", fmt.Sprintf(`{"sessionId":%q,"ttlMillis":60000,"waitMillis":0}`, session.SessionID), &grant)
			token = max(token, grant.FencingToken)
			return done
		})
	}
	return token
}

// lose kills the lock server and what keeps its locks.
func (s *Stack) lose(t *testing.T) {
	t.Helper()
	for _, name := range append([]string{LockServer}, s.config.backendNames()...) {
		p, err := s.Process(name)
		if err == nil {
			err = p.Kill(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Stack) restartLockServer(t *testing.T) {
	t.Helper()
	p, err := s.Process(LockServer)
	if err == nil {
		err = p.Restart(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// operate runs restore-guard, again where it says that it has changed nothing: etcd may have an election.
func (s *Stack) operate(t *testing.T, args ...string) {
	t.Helper()
	all := append([]string{"restore-guard", "--yes", "--json", "--operator", "olga", "--reason", "lost on purpose"}, args...)
	await(t, "restore-guard to be done", func() bool {
		out, err := s.Operate(t.Context(), all...)
		if err != nil && !strings.Contains(err.Error(), "exit status 1") || err == nil && !strings.Contains(out, `"highestSeen"`) {
			t.Fatalf("restore-guard printed %q, %v", out, err)
		}
		return err == nil
	})
}

// What keeps the locks is put back twice: as it is, which has it grant again what it granted before, and with the operator's
// program, after which it does not.
func TestWhatKeepsTheLocksIsPutBackAsItWas(t *testing.T) {
	for name, members := range map[string]int{"lockdb": 0, "etcd of three members": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(t)
			c.Executors, c.LocksOnly, c.PayDB = 0, true, true
			if members > 0 {
				in, err := etcd.Prepare(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				c.Backend, c.Etcd, c.EtcdMembers = BackendEtcd, in, members
			}
			s := boot(t, c)
			s.grants(t, 5)
			b, err := s.BackUpLocks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			highest := s.grants(t, 50) // more than the 32 that a sequence may skip
			s.lose(t)
			if err := b.PutBack(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			s.restartLockServer(t)
			again := s.grants(t, 1)
			if again > highest {
				t.Errorf("the restored store grants %d; it had granted up to %d before it was lost", again, highest)
			}

			if b, err = s.BackUpLocks(t.Context()); err != nil {
				t.Fatal(err)
			}
			highest = s.grants(t, 50)
			s.lose(t)
			var guard MakeData
			if members > 0 {
				guard = func(_ context.Context, snapshot, dir string, flags []string) error {
					s.operate(t, append([]string{"--snapshot", snapshot, "--data-dir", dir}, flags...)...)
					return nil
				}
			}
			if err := b.PutBack(t.Context(), guard); err != nil {
				t.Fatal(err)
			}
			s.operate(t)
			s.restartLockServer(t)
			if next := s.grants(t, 1); next <= highest+1_000_000 {
				t.Errorf("the guarded store grants %d; it had granted up to %d before it was lost", next, highest)
			}

			if b, err = s.BackUpLocks(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(b.Path()); !os.IsNotExist(err) {
				t.Errorf("a backup that nobody needed is still there: %v", err)
			}
		})
	}
}

// Whoever runs an operator's program has to know whether it failed or could not be run: the one is the program's doing.
func TestAProgramThatFailedIsToldFromOneThatCouldNotBeStarted(t *testing.T) {
	dir, bin := runDir(t), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "logs"), 0o755))
	s := &Stack{config: Config{RunDir: dir, BinDir: bin, Backend: BackendPG}}
	w, err := warden.Start(t.Context(), s.LogPath("warden"))
	must(t, err)
	s.warden = w
	defer func() { must(t, w.Close(context.WithoutCancel(t.Context()))) }()
	operate := func(ctx context.Context, script string) error {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(bin, lockctl), []byte(script), 0o755))
		_, err := s.Operate(ctx, "restore-guard")
		return err
	}
	if _, err := s.Operate(t.Context(), "restore-guard"); err == nil || errors.As(err, new(ExitError)) {
		t.Errorf("there is no such program, and it is said: %v", err)
	}
	if err := operate(t.Context(), "#!/bin/sh\necho moved\n"); err != nil {
		t.Error(err)
	}
	if err := operate(t.Context(), "#!/bin/sh\necho it refuses\nexit 3\n"); !errors.As(err, new(ExitError)) || err.Error() != "lockctl restore-guard: exit status 3:\nit refuses" {
		t.Errorf("it has refused, and it is said: %v", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := operate(soon, "#!/bin/sh\nexec sleep 300\n"); errors.As(err, new(ExitError)) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("whoever waits for it has no time left, and it is said: %v", err)
	}
	_, err = s.toEnd(t.Context(), 200*time.Millisecond, lockctl, filepath.Join(bin, lockctl), baseVariables(), []string{"restore-guard"})
	if !errors.As(err, new(ExitError)) || !strings.Contains(err.Error(), "lockctl restore-guard does not end within 200ms") {
		t.Errorf("it does not end, and it is said: %v", err)
	}
}
