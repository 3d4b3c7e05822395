package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/hashicorp/go-multierror"
	"github.com/rs/zerolog"
)

// Interposer puts something between the client and the server of an HTTP hop: it listens on the address that it
// returns, and passes on to upstream. It is closed with the link.
type Interposer func(from, to, upstream string) (addr string, closer io.Closer, err error)

// Direction says which half of a connection a fault is on.
type Direction int

// The directions of a link.
const (
	Both Direction = iota
	// ToServer is what the client sends.
	ToServer
	// ToClient is what the server answers.
	ToClient
)

// Link is one network hop, from one process to one other, with a proxy of its own: cutting it cuts no one else.
type Link struct {
	// From and To are the processes' names.
	From, To string

	proxy      *toxiproxy.Proxy
	interposed io.Closer

	mu     sync.Mutex
	faults []string      // the names of those that are on, or may be
	turn   chan struct{} // holds whatever call into the toxics is not over yet
}

// faultLimit bounds every call to the proxy: taking a fault off can hang when a connection does.
const faultLimit = 5 * time.Second

// LinkName is the name of the hop from one process to another.
func LinkName(from, to string) string { return from + "→" + to }

// newLink opens a hop to a server that listens on upstream already.
func newLink(from, to, upstream string, interpose Interposer) (*Link, error) {
	l := &Link{From: from, To: to, turn: make(chan struct{}, 1)}
	if interpose != nil {
		addr, closer, err := interpose(from, to, upstream)
		if err != nil {
			return nil, fmt.Errorf("open link %s: %w", l.Name(), err)
		}
		upstream, l.interposed = addr, closer
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l.proxy = toxiproxy.NewProxy(server, l.Name(), "127.0.0.1:0", upstream)
	if err := l.proxy.Start(); err != nil {
		err = fmt.Errorf("open link %s: %w", l.Name(), err)
		if l.interposed != nil {
			err = errors.Join(err, l.interposed.Close())
		}
		return nil, err
	}
	return l, nil
}

// Name is the link's name, such as executor-2→rail-proxy.
func (l *Link) Name() string { return LinkName(l.From, l.To) }

// Address is where the client connects to, host and port.
func (l *Link) Address() string { return l.proxy.Listen }

// streams are the proxy's names of the directions.
func (d Direction) streams() []string {
	switch d {
	case ToServer:
		return []string{"upstream"}
	case ToClient:
		return []string{"downstream"}
	default:
		return []string{"upstream", "downstream"}
	}
}

// close heals and closes the link: a connection in a fault would not end otherwise.
func (l *Link) close(ctx context.Context) error {
	var errs *multierror.Error
	errs = multierror.Append(errs, l.Heal(ctx))
	err := bounded(ctx, func() error { l.proxy.Stop(); return nil })
	if err != nil {
		errs = multierror.Append(errs, fmt.Errorf("close link %s: %w", l.Name(), err))
	}
	if l.interposed != nil {
		if err := l.interposed.Close(); err != nil {
			errs = multierror.Append(errs, fmt.Errorf("close what is on link %s: %w", l.Name(), err))
		}
	}
	return errs.ErrorOrNil()
}

// inTurn has the proxy change its toxics, one change after the other: one that was waited for in vain is over before the next
// begins. A fault that was taken off can so not come on behind its back.
func (l *Link) inTurn(ctx context.Context, change func() error) error {
	ctx, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the link's proxy is still busy with an earlier change: %w", context.Cause(ctx))
	}
	return bounded(ctx, func() error {
		defer func() { <-l.turn }()
		return change()
	})
}

// bounded waits for a call into the proxy no longer than faultLimit. One that hangs is left behind: there is no way to
// stop it, and it holds nothing but its own link.
func bounded(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the link's proxy does not answer: %w", context.Cause(ctx))
	}
}
