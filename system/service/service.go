// Package service is what every process of the system has in common: it reads its configuration or prints it, logs
// JSON to standard output, serves its public and its private listener, and stops cleanly on SIGTERM.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"fenceproof/system/config"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Service is one running process, as its main function built it.
type Service struct {
	// Listen and Handler are the public API; Handler nil means that the process has none.
	Listen  string
	Handler http.Handler
	// Admin is the private listener's address and content.
	AdminListen string
	Admin       Admin
	// Run, where not nil, is the work besides serving; it returns when ctx ends. The process ends when it returns.
	Run func(ctx context.Context) error
	// Close, where not nil, releases what the service holds, after the listeners are closed.
	Close func()
}

// gcPercent is how far the heap may grow between two collections where GOGC does not say. These processes keep a few MiB
// and allocate ten times as much a second: Go's 100 would have them collect many times a second for a few MiB less.
const gcPercent = 400

// Main is the whole of a process's main function: -h prints the configuration, subcommands (like "migrate") run and
// return, anything else serves until SIGTERM or SIGINT. It returns the exit status.
func Main[C any](name string, build func(ctx context.Context, c C, log *slog.Logger, reg *prometheus.Registry) (*Service, error),
	subcommands map[string]func(ctx context.Context, c C, log *slog.Logger) error) int {
	if len(os.Args) > 1 {
		if help(os.Args[1]) {
			usage[C](name, subcommands)
			return 0
		}
		if subcommands[os.Args[1]] == nil || len(os.Args) > 2 {
			fmt.Fprintf(os.Stderr, "%s: %q is not understood; -h tells what is\n", name, os.Args[1:])
			return 2
		}
	}
	c, err := config.Load[C]()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: the configuration is wrong:\n%v\n%s -h prints all variables\n", name, err, name)
		return 2
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil)).With("service", name)
	if len(os.Args) > 1 {
		err = subcommands[os.Args[1]](ctx, c, log)
	} else {
		err = serve(ctx, c, log, build)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

func help(arg string) bool { return arg == "-h" || arg == "--help" || arg == "help" }

func usage[C any](name string, subcommands map[string]func(context.Context, C, *slog.Logger) error) {
	fmt.Printf("usage: %s", name)
	for s := range subcommands {
		fmt.Printf(" [%s]", s)
	}
	fmt.Printf("\n\nConfigured by the environment only:\n\n")
	config.Usage[C](os.Stdout)
}

func serve[C any](ctx context.Context, c C, log *slog.Logger,
	build func(context.Context, C, *slog.Logger, *prometheus.Registry) (*Service, error)) error {
	reg := prometheus.NewRegistry()
	s, err := build(ctx, c, log, reg)
	if err != nil {
		return err
	}
	if s.Close != nil {
		defer s.Close()
	}
	return s.run(ctx, log, reg)
}

func (s *Service) run(ctx context.Context, log *slog.Logger, reg *prometheus.Registry) error {
	admin, err := net.Listen("tcp", s.AdminListen)
	if err != nil {
		return fmt.Errorf("open the private listener: %w", err)
	}
	defer admin.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	if s.Handler != nil {
		public, err := net.Listen("tcp", s.Listen)
		if err != nil {
			return fmt.Errorf("open the public listener: %w", err)
		}
		defer public.Close()
		serveOn(ctx, g, public, s.Handler, log)
	}
	serveOn(ctx, g, admin, s.Admin.handler(reg), log)
	if s.Run != nil {
		g.Go(func() error { defer stop(); return s.Run(ctx) })
	}
	log.Info("serving", "event", "serving", "listen", s.Listen, "admin", s.AdminListen)
	err = g.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// drain is how long a stopping process waits for the requests it is serving.
const drain = 5 * time.Second

// Limits of reading a request's header, and all of it. Answering has none here: an acquire may wait for half a minute,
// and every handler bounds its own work.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute // beyond that of the clients, which hang up first
)

func serveOn(ctx context.Context, g *errgroup.Group, l net.Listener, h http.Handler, log *slog.Logger) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError)}
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		if err := srv.Shutdown(c); err != nil {
			_ = srv.Close() // what is still open after the drain is cut
		}
		return nil
	})
}
