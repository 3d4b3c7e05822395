package witness

import (
	"context"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/deploy/etcd"

	"go.etcd.io/etcd/client/v3"
)

// store is a real etcd with a client that writes what the lock would write.
type store struct {
	*clientv3.Client
	t *testing.T
}

func openStore(t *testing.T, members ...*etcd.Member) store {
	t.Helper()
	var urls []string
	for _, m := range members {
		urls = append(urls, m.URL())
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: urls, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return store{c, t}
}

// do commits ops in one transaction and gives its revision. It tries again until the store takes it, as it may have no
// leader for a while; what it writes may then be there twice.
func (s store) do(ops ...clientv3.Op) int64 {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
		r, err := s.Txn(ctx).Then(ops...).Commit()
		cancel()
		if err == nil {
			return r.Header.Revision
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("write to etcd: %v", err)
		}
	}
}

func (s store) open(id, owner string) int64 {
	s.t.Helper()
	return s.do(clientv3.OpPut(sessionPrefix+id, sessionValue(owner)))
}

func (s store) grant(key, owner, session string) int64 {
	s.t.Helper()
	return s.do(clientv3.OpPut(lockPrefix+key, grantValue(owner, session)))
}

// tokens are the tokens of the grants that were recorded, in their order.
func tokens(p *page) []int64 {
	var out []int64
	for _, e := range p.all(history.OpCommit) {
		for _, c := range e.Changes {
			if c.Table == "lock_entry" && c.New != nil {
				token, _ := strconv.ParseInt(c.New["fencing_token"], 10, 64) // 0 where it is none
				out = append(out, token)
			}
		}
	}
	return out
}

// nothingMissed checks that every put of key was recorded, in order, those under want among them. etcd itself counts the
// puts up to the revision at which it is asked, and the witness is drained after that: a write whose answer was lost may
// have been tried again, and the first try may come when a member that was stopped goes on.
func (s store) nothingMissed(w *Etcd, p *page, key string, want []int64) {
	s.t.Helper()
	r, err := s.Get(s.t.Context(), lockPrefix+key)
	if err != nil || len(r.Kvs) != 1 {
		s.t.Fatalf("read key %s: %v", key, err)
	}
	w.drained(s.t)
	got := slices.DeleteFunc(tokens(p), func(token int64) bool { return token > r.Header.Revision })
	if int64(len(got)) != r.Kvs[0].Version {
		s.t.Errorf("%d grants were recorded, and etcd has had %d", len(got), r.Kvs[0].Version)
	}
	rest, last := want, int64(0)
	for _, token := range got {
		if token <= last {
			s.t.Fatalf("token %d was recorded after %d", token, last)
		}
		if last = token; len(rest) > 0 && rest[0] == token {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		s.t.Errorf("grant %d was not recorded", rest[0])
	}
}

// line is a connection to a member that can be cut and mended.
type line struct {
	t      *testing.T
	listen net.Listener
	to     *etcd.Member

	mu    sync.Mutex
	whole bool
	open  map[net.Conn]bool
	wg    sync.WaitGroup
}

func hold(t *testing.T, to *etcd.Member) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &line{t: t, listen: l, to: to, whole: true, open: map[net.Conn]bool{}}
	h.wg.Go(h.accept)
	t.Cleanup(func() {
		_ = l.Close()
		h.cut()
		h.wg.Wait()
	})
	return h
}

func (h *line) url() string {
	return (&url.URL{Scheme: "http", Host: h.listen.Addr().String()}).String()
}

func (h *line) accept() {
	for {
		near, err := h.listen.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		if !h.whole {
			_ = near.Close()
			h.mu.Unlock()
			continue
		}
		far, err := net.Dial("tcp", h.to.Address())
		if err != nil {
			_ = near.Close()
			h.mu.Unlock()
			continue
		}
		h.open[near], h.open[far] = true, true
		h.mu.Unlock()
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			h.wg.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = pair[0].Close()
			})
		}
	}
}

func (h *line) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.whole = false
	for c := range h.open {
		_ = c.Close()
	}
	clear(h.open)
}

func (h *line) mend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.whole = true
}
