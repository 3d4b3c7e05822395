// Command rail-stub is the payment rail: not idempotent, without tokens or keys. Its journal is the truth about money.
package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"fenceproof/system/config"
	"fenceproof/system/rail/stub"
	"fenceproof/system/service"

	"github.com/prometheus/client_golang/prometheus"
)

func main() { os.Exit(service.Main("rail-stub", build, nil)) }

func build(_ context.Context, c config.RailStub, log *slog.Logger, _ *prometheus.Registry) (*service.Service, error) {
	journal, err := stub.OpenJournal(c.Journal)
	if err != nil {
		return nil, err
	}
	rail := stub.New(stub.Options{
		Latency:          time.Duration(c.LatencyMS) * time.Millisecond,
		FailureRate:      c.FailureRate,
		DuplicateAckRate: c.DuplicateAckRate,
		LookupLag:        time.Duration(c.LookupLagMS) * time.Millisecond,
		Seed:             c.Seed,
	}, journal, log)
	return &service.Service{
		Listen: c.Listen, Handler: rail.Handler(), AdminListen: c.AdminListen,
		Close: func() {
			if err := journal.Close(); err != nil {
				log.Error("close the journal", "event", "journal_failed", "error", err)
			}
		},
	}, nil
}
