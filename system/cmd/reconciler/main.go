// Command reconciler ends the payouts of which nobody knows whether their money has moved, by what the rail's look-up
// shows.
package main

import (
	"context"
	"log/slog"
	"os"

	"fenceproof/system/config"
	"fenceproof/system/lock/lockclient"
	"fenceproof/system/reconciler"
	"fenceproof/system/service"

	"github.com/prometheus/client_golang/prometheus"
)

func main() { os.Exit(service.Main("reconciler", build, nil)) }

func build(_ context.Context, c config.Reconciler, log *slog.Logger, reg *prometheus.Registry) (*service.Service, error) {
	locks, err := lockclient.New(lockclient.Options{BaseURL: c.LockServerURL, OwnerID: c.OwnerID, SessionTTL: c.SessionTTL,
		Margin: c.SafetyMargin, LongestStep: c.StepTimeout, Log: log, Registerer: reg})
	if err != nil {
		return nil, err
	}
	r := reconciler.New(reconciler.Options{
		OwnerID: c.OwnerID, Locks: locks, LeaseTTL: c.DefaultTTL, PaymentResourceURL: c.PaymentResourceURL, RailURL: c.RailStubURL,
		Interval: c.Interval, Window: c.SettlementWindow, StepTimeout: c.StepTimeout, Log: log, Registerer: reg,
	})
	return &service.Service{AdminListen: c.AdminListen, Admin: service.Admin{Ready: r.Ready}, Run: r.Run, Close: locks.Farewell}, nil
}
