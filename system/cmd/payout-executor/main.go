// Command payout-executor pays payouts out under the lock of their account. Several may run; each has an owner id of its
// own (EXECUTOR_OWNERID).
package main

import (
	"context"
	"log/slog"
	"os"

	"fenceproof/system/config"
	"fenceproof/system/executor"
	"fenceproof/system/lock/lockclient"
	"fenceproof/system/service"

	"github.com/prometheus/client_golang/prometheus"
)

func main() { os.Exit(service.Main("payout-executor", build, nil)) }

func build(_ context.Context, c config.Executor, log *slog.Logger, reg *prometheus.Registry) (*service.Service, error) {
	locks, err := lockclient.New(lockclient.Options{BaseURL: c.LockServerURL, OwnerID: c.OwnerID, SessionTTL: c.SessionTTL,
		Margin: c.SafetyMargin, LongestStep: c.Prepare + c.StepTimeout, Log: log, Registerer: reg})
	if err != nil {
		return nil, err
	}
	e := executor.New(executor.Options{
		OwnerID: c.OwnerID, PaymentResourceURL: c.PaymentResourceURL, RailProxyURL: c.RailProxyURL,
		Acquire: func(ctx context.Context, key string) (executor.Lease, error) {
			lease, err := locks.Acquire(ctx, key, c.DefaultTTL, 0)
			if err != nil {
				return nil, err // not the nil *Lease, which is no nil Lease
			}
			return lease, nil
		},
		Concurrency: c.Concurrency, Prepare: c.Prepare, StepTimeout: c.StepTimeout, Poll: c.Poll, Log: log, Registerer: reg,
	})
	return &service.Service{
		AdminListen: c.AdminListen, Admin: service.Admin{Ready: e.Ready}, Run: e.Run,
		Close: locks.Farewell,
	}, nil
}
