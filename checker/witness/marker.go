package witness

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

//go:embed sql/emit_marker.sql
var emitMarkerSQL string

// markerPrefix names the messages that witnesses write into a database's log.
const markerPrefix = "fenceproof"

const (
	markEvery   = 100 * time.Millisecond
	markTimeout = 5 * time.Second // a stopped server does not answer; nobody waits for this but the marking itself
)

// mark writes a marker into the log every markEvery, and at once when Drain asks, until ctx ends or the place is lost.
// A marker bears the time before it was written. A commit that had happened by then stands before it in the log, so when
// the marker comes out of the stream, everything that was committed before its time has been recorded. This holds
// however late it is written, so a marker that was given up may still arrive.
func (d *Database) mark(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	var conn *pgx.Conn
	defer func() { drop(conn) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.kick:
		}
		if d.isLost() {
			return
		}
		var err error
		if conn, err = d.emit(ctx, conn); err != nil {
			drop(conn)
			conn = nil
			d.note(err)
		}
	}
}

// emit writes one marker over conn, or over a new connection where conn is nil.
func (d *Database) emit(ctx context.Context, conn *pgx.Conn) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	if conn == nil {
		var err error
		if conn, err = pgx.ConnectConfig(ctx, d.conf); err != nil {
			return nil, fmt.Errorf("connect to write a marker: %w", err)
		}
	}
	content := d.nonce + " " + strconv.FormatInt(d.sink.Now(), 10)
	if _, err := conn.Exec(ctx, emitMarkerSQL, markerPrefix, content); err != nil {
		return conn, fmt.Errorf("write a marker into the log: %w", err)
	}
	return conn, nil
}

// drop closes a connection at once; conn may be nil.
func drop(conn *pgx.Conn) {
	if conn != nil {
		hangUp(conn.PgConn())
	}
}

// marker takes a marker out of the stream: a landmark, and maybe a watermark.
func (r *reader) marker(m *pglogrepl.LogicalDecodingMessageV2) error {
	nonce, stamp, _ := strings.Cut(string(m.Content), " ")
	if nonce != r.nonce {
		return nil // another witness's
	}
	covers, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return misplaced{fmt.Errorf("the marker at %s bears no time: %w", m.LSN, err)}
	}
	r.received = max(r.received, m.LSN)
	seen, err := r.place.see(landmark{end: m.LSN, marker: true, id: uint64(covers)})
	switch {
	case err != nil:
		return misplaced{err}
	case seen:
		return nil
	}
	if covers <= r.lastCovered() {
		return nil // written late, over a connection that had been given up
	}
	if r.shown.due(r.sink.Now(), r.asking.Load() > 0) {
		recordWatermark(r.sink, r.cfg.Witness, r.cfg.Proc, r.cfg.Epoch, covers)
	}
	r.cover(covers)
	return nil
}
