// Command payment-resource serves payouts, accounts and the ledger, and is fence point 1. `payment-resource migrate`
// applies paydb's history.
package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"fenceproof/migrations"
	"fenceproof/system/config"
	"fenceproof/system/migrate"
	"fenceproof/system/payment"
	"fenceproof/system/service"

	"github.com/prometheus/client_golang/prometheus"
)

func main() {
	os.Exit(service.Main("payment-resource", build, map[string]func(context.Context, config.PaymentResource, *slog.Logger) error{
		"migrate": up,
	}))
}

func build(ctx context.Context, c config.PaymentResource, log *slog.Logger, reg *prometheus.Registry) (*service.Service, error) {
	store, err := payment.OpenStore(ctx, c.DatasourceURL)
	if err != nil {
		return nil, err
	}
	fencing := service.NewFencing(c.FencingEnabled, log)
	return &service.Service{
		Listen:      c.Listen,
		Handler:     payment.NewAPI(store, fencing, log, reg).Handler(),
		AdminListen: c.AdminListen,
		Admin:       service.Admin{Ready: store.Ping, Fencing: fencing},
		Close:       store.Close,
	}, nil
}

func up(ctx context.Context, c config.PaymentResource, log *slog.Logger) error {
	history, err := fs.Sub(migrations.PayDB, "paydb")
	if err != nil {
		return fmt.Errorf("find paydb's migrations: %w", err)
	}
	return migrate.Up(ctx, c.DatasourceURL, history, log)
}
