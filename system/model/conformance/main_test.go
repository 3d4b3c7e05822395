package conformance

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/deploy/postgres/postgrestest"
	"fenceproof/migrations"
	"fenceproof/system/migrate"
	"fenceproof/system/payment"
	"fenceproof/system/rail/proxy"
	"fenceproof/system/service"
	"fenceproof/system/wire"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

var (
	paydbURL string
	db       *pgxpool.Pool // the tests' own look at paydb
	quiet    = slog.New(slog.DiscardHandler)
)

func TestMain(m *testing.M) {
	os.Exit(postgrestest.Run(m, func(i *postgres.Instance) {
		ctx := context.Background()
		must(i.CreateDatabase(ctx, "paydb", "payapp"))
		paydbURL = i.URL("payapp", "paydb")
		history, err := fs.Sub(migrations.PayDB, "paydb")
		must(err)
		must(migrate.Up(ctx, paydbURL, history, quiet))
		db, err = pgxpool.New(ctx, paydbURL)
		must(err)
	}))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// clients is how many connections to one service are kept.
const clients = 32

// patience bounds every wait for something that must happen. It decides nothing else.
const patience = time.Minute

// services are a payment-resource and a rail-proxy, each with its fence and without, on one paydb and one rail.
type services struct {
	payment, rail [2]*wire.Client // 0 fenced, 1 with fencing off
	gate          *gate
}

// start serves until the test ends.
func start(t testing.TB) *services {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	s := &services{gate: newGate(t)}
	for i, fencing := range []bool{true, false} {
		store, err := payment.OpenStore(context.Background(), paydbURL)
		if err != nil {
			t.Fatal(err)
		}
		api := payment.NewAPI(store, service.NewFencing(fencing, quiet), quiet, prometheus.NewRegistry())
		s.payment[i] = serve(t, httptest.NewServer(api.Handler()), store.Close)

		records, err := proxy.OpenStore(context.Background(), paydbURL, patience)
		if err != nil {
			t.Fatal(err)
		}
		p := proxy.New(proxy.Options{Store: records, RailURL: s.gate.url, Timeout: 10 * patience,
			Fencing: service.NewFencing(fencing, quiet), Log: quiet, Registerer: prometheus.NewRegistry()})
		s.rail[i] = serve(t, httptest.NewServer(p.Handler()), p.Close)
	}
	return s
}

// serve makes a client of a server and ends both with the test, and then what stands behind the server.
func serve(t testing.TB, server *httptest.Server, end func()) *wire.Client {
	c := wire.NewClient(server.URL, clients)
	t.Cleanup(func() {
		c.Close()
		server.Close()
		end()
	})
	return c
}

// journalIn is a place for a rail's journal.
func journalIn(t testing.TB) string { return filepath.Join(t.TempDir(), "journal.ndjson") }
