package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// ErrBuilt says that there is no etcd yet, and that Prepare will build one.
var ErrBuilt = errors.New("it is built at the first run that needs it, in about a minute and over the network")

// Look says which etcd Prepare would use, and builds nothing. The error says what is missing, and what to do; it is ErrBuilt
// where nothing is missing but the first run.
func Look(ctx context.Context) (found string, err error) {
	in, err := existing(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("etcd %s in %s", in.version, in.folder), nil
}

func existing(ctx context.Context) (*Installation, error) {
	if folder := os.Getenv("ETCD_BIN"); folder != "" {
		return chosen(ctx, folder)
	}
	cache, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	folder := buildFolder(cache)
	if _, err := os.Stat(folder); err == nil {
		return inspect(ctx, folder)
	}
	if _, err := exec.LookPath("go"); err != nil {
		return nil, errNoCompiler
	}
	return nil, ErrBuilt
}
