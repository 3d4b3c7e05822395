package witness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// retryEvery is the wait between two attempts to reach the database again. It is on this machine, and refuses fast.
const retryEvery = 50 * time.Millisecond

// statusEvery is how often the server is told what need not be sent again.
const statusEvery = 200 * time.Millisecond

// The SQLSTATEs that say something about the place.
const (
	objectInUse        = "55006" // the slot's earlier reader is not gone yet
	undefinedObject    = "42704" // there is no such slot
	wrongState         = "55000" // the slot lost log that it needs
	undefinedFile      = "58P01" // the server removed log that it needs
	featureUnsupported = "0A000" // the slot belongs to another database
)

// misplaced is an error that no new connection can heal: the place is lost.
type misplaced struct{ why error }

func (m misplaced) Error() string { return m.why.Error() }
func (m misplaced) Unwrap() error { return m.why }

// stream records commits until ctx ends or the place is lost, over as many connections as it takes.
func (d *Database) stream(ctx context.Context) {
	for ctx.Err() == nil {
		err := d.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		var m misplaced
		if errors.As(err, &m) {
			d.losePlace(m.why)
			return
		}
		d.note(err)
		pause(ctx, retryEvery)
	}
}

// follow records commits over one connection. It returns a misplaced error, or whatever ended the connection.
func (d *Database) follow(ctx context.Context) error {
	c, who, at, err := d.replication(ctx)
	if err != nil {
		return err
	}
	defer hangUp(c)
	if err := d.samePlace(ctx, who, at); err != nil {
		return err
	}
	err = pglogrepl.StartReplication(ctx, c, d.slot, d.place.acked, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication,
		PluginArgs: []string{"proto_version '2'", "publication_names 'fenceproof'", "messages 'true'",
			"streaming 'false'", "binary 'false'"},
	})
	if err != nil {
		return judge(fmt.Errorf("resume the log at %s: %w", d.place.acked, err))
	}
	d.place.reconnect()
	r := &reader{Database: d, conn: c, decode: newDecoder(d.cfg.Ignore)}
	return r.run(ctx)
}

// samePlace refuses a log that cannot be the one that was read so far. What it lets pass is proved by the landmarks.
func (d *Database) samePlace(ctx context.Context, who identity, at pglogrepl.LSN) error {
	mine := d.place.reached()
	switch {
	case who.system != d.home.system:
		return misplaced{fmt.Errorf("another database cluster answers now (system %s, it was %s)", who.system, d.home.system)}
	case who.timeline != d.home.timeline:
		return misplaced{fmt.Errorf("the log is on timeline %d now and was on %d: a standby was promoted", who.timeline, d.home.timeline)}
	case at < mine:
		return misplaced{fmt.Errorf("the log ends at %s and had been read to %s: the database was put back to an older state", at, mine)}
	}
	conn, err := pgx.ConnectConfig(ctx, d.conf)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var confirmed string
	var thrownAway bool
	err = conn.QueryRow(ctx, findSlotSQL, d.slot).Scan(&confirmed, &thrownAway)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return misplaced{fmt.Errorf("the replication slot %s is gone", d.slot)}
	case err != nil:
		return fmt.Errorf("look for the replication slot: %w", err)
	case thrownAway:
		return misplaced{fmt.Errorf("the server threw away log that the replication slot %s needed", d.slot)}
	}
	if lsn, err := pglogrepl.ParseLSN(confirmed); err != nil {
		return fmt.Errorf("read the slot's position: %w", err)
	} else if lsn > d.place.acked {
		return misplaced{fmt.Errorf("somebody else moved the replication slot %s to %s, past %s", d.slot, lsn, d.place.acked)}
	}
	return nil
}

// judge tells an error that ends the place from one that ends only the connection.
func judge(err error) error {
	switch sqlState(err) {
	case undefinedObject, wrongState, undefinedFile, featureUnsupported:
		return misplaced{err}
	}
	return err
}

func sqlState(err error) string {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// reader reads one replication connection.
type reader struct {
	*Database
	conn     *pgconn.PgConn
	decode   *decoder
	received pglogrepl.LSN
	shown    watermarks
}

func (r *reader) run(ctx context.Context) error {
	// One deadline for reads and writes, moved by hand: a context per message would cost a timer each.
	socket := r.conn.Conn()
	unhook := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	defer unhook()
	var next time.Time
	for {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(statusEvery)
			if err := socket.SetDeadline(next); err != nil {
				return fmt.Errorf("set the connection's deadline: %w", err)
			}
			if ctx.Err() != nil { // after the deadline was moved, so that an end in between is not missed
				return ctx.Err()
			}
			if err := r.sendStatus(r.place.acknowledge()); err != nil {
				return err
			}
		}
		m, err := r.conn.ReceiveMessage(context.Background())
		switch {
		case err != nil && pgconn.Timeout(err):
			next = time.Time{}
			continue
		case err != nil:
			return judge(fmt.Errorf("read the log: %w", err))
		}
		if err := r.take(m); err != nil {
			return err
		}
	}
}

func (r *reader) take(m pgproto3.BackendMessage) error {
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return judge(fmt.Errorf("read the log: %w", pgconn.ErrorResponseToPgError(m)))
	case *pgproto3.CopyDone:
		return errors.New("read the log: the server ended the stream")
	case *pgproto3.CopyData:
		switch m.Data[0] {
		case pglogrepl.PrimaryKeepaliveMessageByteID:
			return r.keepalive(m.Data[1:])
		case pglogrepl.XLogDataByteID:
			return r.data(m.Data[1:])
		}
	}
	return nil
}

// keepalive answers when it is asked to. A server that shuts down waits until its reader has confirmed everything. The
// slot must stay behind the last landmark, so the answer confirms the receipt and gives no flush position: the server
// then goes by the receipt and leaves the slot where it is.
func (r *reader) keepalive(body []byte) error {
	k, err := pglogrepl.ParsePrimaryKeepaliveMessage(body)
	if err != nil {
		return fmt.Errorf("read a keep-alive of the log: %w", err)
	}
	if r.decode.open == nil {
		r.received = max(r.received, k.ServerWALEnd)
	}
	if !k.ReplyRequested {
		return nil
	}
	return r.sendStatus(0)
}

// sendStatus tells the server what was received, and what need not be sent again (flushed; 0 says nothing about it).
func (r *reader) sendStatus(flushed pglogrepl.LSN) error {
	const sinceY2K = 946684800 * 1e6
	b := []byte{pglogrepl.StandbyStatusUpdateByteID}
	for _, lsn := range []pglogrepl.LSN{max(r.received, flushed), flushed, flushed} {
		b = binary.BigEndian.AppendUint64(b, uint64(lsn))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMicro()-sinceY2K))
	b = append(b, 0) // no answer wanted
	out, err := (&pgproto3.CopyData{Data: b}).Encode(nil)
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if err := r.conn.Frontend().SendUnbufferedEncodedCopyData(out); err != nil {
		return fmt.Errorf("tell the server what was recorded: %w", err)
	}
	return nil
}

func (r *reader) data(body []byte) error {
	x, err := pglogrepl.ParseXLogData(body)
	if err != nil {
		return misplaced{fmt.Errorf("the log sent something that is not understood: %w", err)}
	}
	m, err := pglogrepl.ParseV2(x.WALData, false)
	if err != nil {
		return misplaced{fmt.Errorf("the log sent something that is not understood: %w", err)}
	}
	tx, msg, err := r.decode.feed(m)
	switch {
	case err != nil:
		return misplaced{err}
	case tx != nil:
		r.received = max(r.received, tx.end)
		if len(tx.changes) > 0 {
			return r.commit(tx)
		}
	case msg != nil && !msg.Transactional && msg.Prefix == markerPrefix:
		return r.marker(msg)
	}
	return nil
}

// commit records a transaction, unless it was recorded over an earlier connection.
func (r *reader) commit(t *transaction) error {
	seen, err := r.place.see(landmark{end: t.end, id: uint64(t.xid)})
	switch {
	case err != nil:
		return misplaced{err}
	case seen:
		return nil
	}
	e := history.Event{Type: contract.OK, Proc: r.cfg.Proc, Op: history.OpCommit,
		LSN: t.commit.String(), XID: t.xid, Epoch: r.cfg.Epoch, Committed: t.at.UnixMicro(), Changes: t.changes}
	if !fits(&e, r.decode.size) {
		return misplaced{tooLong(t.xid)}
	}
	r.sink.Record(r.cfg.Witness, e)
	r.shown.news = true
	return nil
}

// hangUp closes a replication connection without waiting for the server, which may be stopped.
func hangUp(c *pgconn.PgConn) {
	_ = c.Conn().Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// pause waits, and tells whether ctx is still live.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
