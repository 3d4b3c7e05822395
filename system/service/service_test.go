package service

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/system/wire"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is what a service logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// begin runs s on addresses of its own; ended gives what run returned, address the public one.
func begin(ctx context.Context, t *testing.T, s *Service, log io.Writer) (address string, ended <-chan error) {
	t.Helper()
	s.Listen, s.AdminListen = free(t), free(t)
	done := make(chan error, 1)
	go func() { done <- s.run(ctx, slog.New(slog.NewJSONHandler(log, nil)), prometheus.NewRegistry()) }()
	return s.Listen, done
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func within(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end within 20 s")
		return nil
	}
}

func TestAServiceThatCannotListenLeavesNothingBehind(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := &Service{Handler: http.NotFoundHandler(), Listen: taken.Addr().String(), AdminListen: free(t)}
	err = s.run(t.Context(), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "public listener") {
		t.Errorf("got %v", err)
	}
	goleak.VerifyNone(t)
}

func TestAServiceEndsWhenItsWorkDoes(t *testing.T) {
	for _, want := range []error{nil, errors.New("nothing left to do")} {
		s := &Service{Handler: http.NotFoundHandler(), Run: func(context.Context) error { return want }}
		_, ended := begin(t.Context(), t, s, io.Discard)
		if err := within(t, ended); err != want {
			t.Errorf("ended with %v, want %v", err, want)
		}
	}
}

func TestAServiceThatIsToldToStopFinishesWhatItServes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	arrived, goOn := make(chan struct{}), make(chan struct{})
	s := &Service{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-goOn
		wire.Reply(w, http.StatusOK, struct{}{})
	})}
	address, ended := begin(ctx, t, s, io.Discard)
	answer := make(chan int, 1)
	go func() {
		for {
			res, err := http.Get("http://" + address)
			if err == nil {
				_ = res.Body.Close()
				answer <- res.StatusCode
				return
			}
			time.Sleep(time.Millisecond) // it does not listen yet
		}
	}()
	<-arrived
	stop()
	close(goOn)
	if got := <-answer; got != http.StatusOK {
		t.Errorf("the request under way was answered %d", got)
	}
	if err := within(t, ended); err != nil {
		t.Errorf("it ended with %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// What a handler's crash leaves is a line of the log like any other.
func TestAHandlersPanicIsALineOfJSON(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	log := &journal{}
	s := &Service{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("out of order") })}
	address, ended := begin(ctx, t, s, log)
	for end := time.Now().Add(5 * time.Second); !strings.Contains(log.String(), "out of order"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("the panic is not in the log")
			break
		}
		if res, err := http.Get("http://" + address); err == nil {
			_ = res.Body.Close()
		}
	}
	stop()
	if err := within(t, ended); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, `{"time":`) {
			t.Errorf("the log has the line %q", line)
		}
	}
}

func TestThePrivateListenerTellsHealthReadinessAndTheSwitch(t *testing.T) {
	log := &journal{}
	fencing := NewFencing(true, slog.New(slog.NewJSONHandler(log, nil)))
	var outage error
	h := Admin{Ready: func(context.Context) error { return outage }, Fencing: fencing}.handler(prometheus.NewRegistry())
	ask := func(method, path, body string, status int, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s %s: got %d %s, want %d %s", method, path, body, w.Code, w.Body, status, want)
		}
	}
	ask("GET", "/readyz", "", 200, "ready")
	outage = errors.New("the backend is on holiday")
	ask("GET", "/readyz", "", 503, "the backend is on holiday")
	ask("GET", "/healthz", "", 200, "ok")
	for _, body := range []string{"", "{}", `{"enabled":null}`, `{"enabled":"false"}`, `{"enabled":0}`, `{"enabled":false,"why":1}`, `[false]`} {
		ask("PUT", "/fencing", body, 400, "INVALID_REQUEST")
	}
	ask("GET", "/fencing", "", 200, `{"enabled":true}`)
	if !fencing.Enabled() || log.String() != "" {
		t.Errorf("a request that was refused turned the switch: %s", log)
	}
	ask("PUT", "/fencing", `{"enabled":false}`, 200, `{"enabled":false}`)
	if fencing.Enabled() || strings.Count(log.String(), `"event":"fencing_disabled"`) != 1 || !strings.Contains(log.String(), `"level":"WARN"`) {
		t.Errorf("off, and the log says: %s", log)
	}
	ask("PUT", "/fencing", `{"enabled":true}`, 200, `{"enabled":true}`)
}
