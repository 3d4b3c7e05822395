// Command lock-server grants locks with fencing tokens over HTTP. "lock-server migrate" applies the schema of lockdb.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"fenceproof/migrations"
	"fenceproof/system/config"
	"fenceproof/system/lock"
	"fenceproof/system/lock/etcdstore"
	"fenceproof/system/lock/lockserver"
	"fenceproof/system/lock/pgstore"
	"fenceproof/system/migrate"
	"fenceproof/system/service"

	"github.com/prometheus/client_golang/prometheus"
)

func main() {
	os.Exit(service.Main("lock-server", build, map[string]func(context.Context, config.LockServer, *slog.Logger) error{"migrate": up}))
}

func build(_ context.Context, c config.LockServer, log *slog.Logger, reg *prometheus.Registry) (*service.Service, error) {
	store, err := open(c, log)
	if err != nil {
		return nil, err
	}
	s := lockserver.New(lockserver.Options{Store: store, Backend: c.Backend, DefaultTTL: c.DefaultTTL, SessionTTL: c.SessionTTL,
		MaxWaiters: c.MaxWaiters, Log: log, Registerer: reg})
	return &service.Service{Listen: c.Listen, Handler: s.Handler(), AdminListen: c.AdminListen,
		Admin: service.Admin{Ready: store.Ping, Routes: s.Routes}, Run: s.Run, Close: store.Close}, nil
}

// open opens the store of the backend that the configuration names.
func open(c config.LockServer, log *slog.Logger) (lock.Store, error) {
	if c.Backend == "etcd" {
		return etcdstore.Open(c.EtcdEndpoints, log)
	}
	return pgstore.Open(c.DatasourceURL, log)
}

func up(ctx context.Context, c config.LockServer, log *slog.Logger) error {
	if c.Backend == "etcd" {
		return errors.New("migrate: etcd has no schema; there is nothing to apply with LOCK_BACKEND=etcd")
	}
	history, err := fs.Sub(migrations.LockDB, "lockdb")
	if err != nil {
		return fmt.Errorf("find the migrations of lockdb: %w", err)
	}
	return migrate.Up(ctx, c.DatasourceURL, history, log)
}
