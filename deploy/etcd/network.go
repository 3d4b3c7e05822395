package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// PeerLink opens the hop over which the member from reaches the member to, which listens on upstream. It returns where
// the hop is entered, host and port.
type PeerLink func(from, to, upstream string) (addr string, err error)

// network leads everything that one member of a cluster says to another over a hop of that pair. etcd lets a member have
// one peer URL, the same for all others, so a proxy at that address could not tell who calls. Therefore a member's peer
// URL is a name here and no address; every member is given, as its environment's HTTP proxy, an exit of its own, which
// knows where the hops of this very member are entered. There is no other way from one member to another: the names are
// of a network that does not exist (192.0.2.0/24, which RFC 5737 reserves for documentation).
//
// A hop carries the connections that the first member of its pair opens, in both directions. Two members have two hops
// between them, and are apart when both are cut.
type network struct {
	exits []*exit
}

// exit is where a member's calls to the others enter the network.
type exit struct {
	server    *http.Server
	listener  net.Listener
	transport *http.Transport
	ended     chan struct{}
}

// peerName is the n-th member's address in the network that does not exist; n counts from 1.
func peerName(n int) string { return fmt.Sprintf("192.0.2.%d:2380", n) }

// connect opens the hops of all pairs and gives every member its exit.
func connect(members []*Member, link PeerLink) (*network, error) {
	n := &network{}
	for i, from := range members {
		hops := map[string]string{}
		for j, to := range members {
			if i == j {
				continue
			}
			addr, err := link(from.name, to.name, to.peer.Address())
			if err != nil {
				return nil, errors.Join(err, n.close())
			}
			hops[peerName(j+1)] = addr
		}
		e, err := openExit(hops)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the network of %s: %w", from.name, err), n.close())
		}
		n.exits = append(n.exits, e)
		from.advertised = "http://" + peerName(i+1)
		from.env = append(from.env, "HTTP_PROXY=http://"+e.listener.Addr().String())
	}
	return n, nil
}

func openExit(hops map[string]string) (*exit, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &exit{listener: l, transport: transport(hops), ended: make(chan struct{})}
	silent := log.New(io.Discard, "", 0) // that a hop is cut or a member dead is no news to whoever did it
	e.server = &http.Server{ErrorLog: silent, Handler: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL = target(r.In) },
		Transport:     e.transport,
		FlushInterval: -1, // a message must not wait for the next one
		ErrorLog:      silent,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	go func() {
		defer close(e.ended)
		_ = e.server.Serve(l) // it ends when it is closed, and says only that
	}()
	return e, nil
}

// target is what a request to a proxy is for: it names its URL in full.
func target(r *http.Request) *url.URL {
	u := *r.URL
	return &u
}

// transport dials names by the hops that lead to them, and nothing else.
func transport(hops map[string]string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, name string) (net.Conn, error) {
			addr, ok := hops[name]
			if !ok {
				return nil, fmt.Errorf("there is no way to %s", name)
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		},
		DisableCompression: true,
	}
}

func (n *network) close() error {
	var errs []error
	for _, e := range n.exits {
		errs = append(errs, e.server.Close())
		<-e.ended
		e.transport.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
