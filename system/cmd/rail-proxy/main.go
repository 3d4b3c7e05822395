// Command rail-proxy is fence point 2: it submits payouts to the payment rail, once each, and refuses stale tokens.
package main

import (
	"context"
	"log/slog"
	"os"

	"fenceproof/system/config"
	"fenceproof/system/rail/proxy"
	"fenceproof/system/service"

	"github.com/prometheus/client_golang/prometheus"
)

func main() { os.Exit(service.Main("rail-proxy", build, nil)) }

func build(ctx context.Context, c config.RailProxy, log *slog.Logger, reg *prometheus.Registry) (*service.Service, error) {
	store, err := proxy.OpenStore(ctx, c.DatasourceURL, c.Timeout)
	if err != nil {
		return nil, err
	}
	fencing := service.NewFencing(c.FencingEnabled, log)
	p := proxy.New(proxy.Options{Store: store, RailURL: c.StubURL, Timeout: c.Timeout, Fencing: fencing, Log: log, Registerer: reg})
	return &service.Service{
		Listen: c.Listen, Handler: p.Handler(), AdminListen: c.AdminListen,
		Admin: service.Admin{Ready: store.Ping, Fencing: fencing},
		Close: p.Close,
	}, nil
}
