package witness

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// member is one endpoint of etcd. The witness speaks to each over a connection of its own and in etcd's own messages:
// the client library heals a watch without saying so, and then nobody would look whether it is still the same history.
type member struct {
	url   string
	conn  *grpc.ClientConn
	kv    etcdserverpb.KVClient
	watch etcdserverpb.WatchClient
}

// dial prepares a connection; it is made when it is needed.
func dial(url string) (*member, error) {
	target, plain := strings.CutPrefix(url, "http://")
	if !plain || target == "" {
		return nil, fmt.Errorf("%q is no endpoint of etcd: write it as http://host:port", url)
	}
	conn, err := grpc.NewClient("passthrough:///"+target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryEvery, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 4 * retryEvery},
			MinConnectTimeout: readTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("prepare a connection to etcd at %s: %w", url, err)
	}
	return &member{url: url, conn: conn, kv: etcdserverpb.NewKVClient(conn), watch: etcdserverpb.NewWatchClient(conn)}, nil
}

// stream is one watch at one member.
type stream struct {
	etcdserverpb.Watch_WatchClient
	end   context.CancelFunc
	heard atomic.Int64 // when anything last came, Unix nanoseconds
	asked time.Time    // when the first question since then was put; of the asking goroutine
}

// ask requests a progress answer, and hangs up a watch that has not said anything since it was asked for too long. Only
// one goroutine calls it.
func (s *stream) ask() {
	switch now := time.Now(); {
	case s.asked.Before(time.Unix(0, s.heard.Load())):
		s.asked = now
	case now.Sub(s.asked) > silentFor:
		s.end()
		return
	}
	_ = s.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{
		ProgressRequest: &etcdserverpb.WatchProgressRequest{}}}) // an error ends the stream, which its reader sees
}

// watch records revisions until ctx ends or the place is lost, at one member after the other.
func (w *Etcd) watch(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		err := w.follow(ctx, w.members[n%len(w.members)])
		if ctx.Err() != nil {
			return
		}
		var m misplaced
		if errors.As(err, &m) {
			w.losePlace(m.why)
			return
		}
		w.note(err)
		pause(ctx, retryEvery)
	}
}

// follow records revisions over one watch. It returns a misplaced error, or whatever ended the watch.
func (w *Etcd) follow(ctx context.Context, m *member) error {
	// A member without a leader ends the watch instead of keeping it silent.
	ctx, end := context.WithCancel(metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader))
	defer end()
	rpc, err := m.watch.Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return fmt.Errorf("watch etcd at %s: %w", m.url, err)
	}
	err = rpc.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: &etcdserverpb.WatchCreateRequest{
		Key: []byte(etcdPrefix), RangeEnd: []byte(etcdPrefixEnd), StartRevision: w.place.resume(), PrevKv: true}}})
	if err != nil {
		return fmt.Errorf("begin the watch of etcd at %s: %w", m.url, err)
	}
	s := &stream{Watch_WatchClient: rpc, end: end}
	s.heard.Store(time.Now().UnixNano())
	w.setStream(s)
	defer w.setStream(nil)
	for {
		r, err := s.Recv()
		if err != nil {
			return fmt.Errorf("read the watch of etcd at %s: %w", m.url, err)
		}
		s.heard.Store(time.Now().UnixNano())
		if err := w.take(r, m); err != nil {
			return err
		}
	}
}

func (w *Etcd) setStream(s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = s
}

// take takes one answer of the watch. It holds whole revisions, in order.
func (w *Etcd) take(r *etcdserverpb.WatchResponse, m *member) error {
	if err := w.sameCluster(r.Header.GetClusterId()); err != nil {
		return err
	}
	switch {
	case r.CompactRevision != 0:
		return misplaced{fmt.Errorf("etcd has compacted its history up to revision %d, and only revisions up to %d had been recorded", r.CompactRevision, w.place.last)}
	case r.Canceled:
		return fmt.Errorf("etcd at %s ended the watch: %s", m.url, r.CancelReason)
	case r.Created:
		return nil
	case len(r.Events) == 0:
		return w.progress(r.Header.GetRevision())
	}
	for events := r.Events; len(events) > 0; {
		rev, n := events[0].Kv.ModRevision, 1
		for n < len(events) && events[n].Kv.ModRevision == rev {
			n++
		}
		if err := w.revision(rev, events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// progress takes an answer without events: the watch has sent everything up to rev. A member may be behind the one that
// was watched before.
func (w *Etcd) progress(rev int64) error {
	switch {
	case rev < w.place.last:
		return nil
	case !w.place.proven():
		return misplaced{fmt.Errorf("etcd has nothing any more at revision %d, which had been recorded: it was put back to an older state and written anew", w.place.last)}
	}
	w.place.through = max(w.place.through, rev)
	w.pass(rev)
	return nil
}

// revision records one revision, unless it was recorded from an earlier watch.
func (w *Etcd) revision(rev int64, events []*mvccpb.Event) error {
	seen, err := w.place.see(rev, fingerprint(events))
	switch {
	case err != nil:
		return misplaced{err}
	case seen:
		return nil
	}
	changes, err := w.rows.apply(events)
	if err != nil {
		return misplaced{fmt.Errorf("revision %d: %w", rev, err)}
	}
	if len(changes) > 0 {
		e := history.Event{Type: contract.OK, Proc: w.proc, Op: history.OpCommit, LSN: decimal(rev), Epoch: w.epoch, Changes: changes}
		if !fits(&e, sizeOf(changes)) {
			return misplaced{fmt.Errorf("revision %d changes more than the %d bytes that one event may have", rev, history.MaxLine)}
		}
		w.sink.Record(w.witness, e)
		w.mu.Lock()
		w.shown.news = true
		w.mu.Unlock()
	}
	w.pass(rev)
	return nil
}

// revisionPlace is where the witness stands in etcd's history: the last revision that changed something of the lock, and
// what it held. Every later watch begins there, so that it must show that revision again.
type revisionPlace struct {
	begun   int64  // what is recorded of it and of all before is the epoch's snapshot; 0 where it began with the first
	last    int64  // 0: none yet
	print   uint64 // of last
	through int64  // nothing of the lock changed between last and this revision
	shown   bool   // the present watch has shown last again
}

// resume is where the next watch begins.
func (p *revisionPlace) resume() int64 {
	p.shown = p.last == 0
	return max(p.begun+1, p.last)
}

// proven tells whether the present watch has shown that it is of the history that was recorded.
func (p *revisionPlace) proven() bool { return p.shown }

// see takes the next revision of a watch. seen means that it was recorded before; an error, that this is not the history
// that was recorded before.
func (p *revisionPlace) see(rev int64, print uint64) (seen bool, err error) {
	switch {
	case !p.shown && (rev != p.last || print != p.print):
		return false, fmt.Errorf("etcd's history does not hold any more what had been recorded of revision %d: it was put back to an older state and written anew", p.last)
	case !p.shown:
		p.shown = true
		return true, nil
	case rev <= max(p.last, p.through):
		return false, fmt.Errorf("etcd's history had been read to revision %d, and then came %d: it went back", max(p.last, p.through), rev)
	}
	p.last, p.print, p.through = rev, print, rev
	return false, nil
}

// fingerprint is a hash of what a revision did.
func fingerprint(events []*mvccpb.Event) uint64 {
	h := fnv.New64a()
	for _, e := range events {
		_, _ = fmt.Fprintf(h, "%d %d %d %q %q\n", e.Type, e.Kv.Version, e.Kv.Lease, e.Kv.Key, e.Kv.Value) // a hash does not fail
	}
	return h.Sum64()
}
