// Command lockctl is the operator's command of the lock: it inspects, revokes, abandons, and guards a restore.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"fenceproof/system/lockctl"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return lockctl.Run(ctx, os.Args[1:], os.Environ(), lockctl.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}
