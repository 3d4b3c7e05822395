package lockctl

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"fenceproof/system/lockctl/guard"

	"github.com/spf13/cobra"
)

// maxStatementTimeout is the longest that a statement may be given; PostgreSQL takes no more than 24 days.
const maxStatementTimeout = 24 * time.Hour

// restoreFlags are what restore-guard is told besides the operator.
type restoreFlags struct {
	floor    string
	timeout  time.Duration // of a statement
	snapshot guard.Snapshot
	member   map[string]*string // etcdutl's flags about the member
}

func (c *command) restoreGuard() *cobra.Command {
	f := restoreFlags{member: map[string]*string{}}
	var d *deed
	x := &cobra.Command{
		Use: "restore-guard", Short: "After a restore of the lock store, move it past every token that was used before",
		Long: `A backup of the lock store is older than the tokens that were granted after it. Before any traffic resumes:

  pg    with lockdb restored and started, and lock-server stopped: restore-guard reads the highest token in paydb and in
        lockdb, moves fencing_token_seq past it plus 2^32 (or past --floor) and ends all sessions, in one transaction.
  etcd  first, for every member: restore-guard --snapshot F --data-dir D makes its data directory, bumped by 1000000000
        revisions (or past --floor). Start etcd from it. Then restore-guard without --snapshot ends all sessions.

It refuses to move anything down, and whatever would not be past the highest token in paydb.`,
		Example: `  lockctl restore-guard --operator olga --reason "lockdb restored from last night"
  lockctl restore-guard --backend etcd --snapshot etcd.snap --data-dir /var/lib/etcd --operator olga --reason "disk lost"
  lockctl restore-guard --backend etcd --operator olga --reason "disk lost"`,
		Args: takes(),
		RunE: func(x *cobra.Command, _ []string) error { return c.doRestoreGuard(x.Context(), f, d) },
	}
	d = c.deed(x)
	flags := x.Flags()
	flags.StringVar(&f.floor, "floor", "", "move past this token instead; never below one that was used")
	flags.DurationVar(&f.timeout, "statement-timeout", time.Minute, "how long one statement on a database may take; reading every token of paydb reads whole tables")
	flags.StringVar(&f.snapshot.File, "snapshot", "", "etcd: the snapshot to restore")
	flags.StringVar(&f.snapshot.DataDir, "data-dir", "", "etcd: the data directory to make")
	flags.BoolVar(&f.snapshot.SkipHashCheck, "skip-hash-check", false, "etcd: the snapshot is a copy of a member's database")
	for name, help := range map[string]string{"name": "the member's name", "initial-cluster": "all members, name=peer URL", "initial-cluster-token": "the cluster's token",
		"initial-advertise-peer-urls": "the member's own peer URLs"} {
		f.member[name] = flags.String(name, "", "etcd: "+help+", as of etcdutl")
	}
	c.override(x, "backend", "LOCK_BACKEND", "pg or etcd")
	c.override(x, "lockdb", "LOCK_DATASOURCE_URL", "lockdb, for pg")
	c.override(x, "paydb", "PAYMENTS_DATASOURCE_URL", "paydb, which is only read")
	c.override(x, "endpoints", "ETCD_ENDPOINTS", "etcd's members, comma-separated")
	c.override(x, "etcdutl", "ETCDUTL", "etcd's program of that name")
	return x
}

func (c *command) doRestoreGuard(ctx context.Context, f restoreFlags, d *deed) error {
	if err := c.check(d); err != nil {
		return err
	}
	if f.timeout < time.Millisecond || f.timeout > maxStatementTimeout {
		return usage("--statement-timeout is %s and must be from 1ms to %s", f.timeout, maxStatementTimeout)
	}
	o := guard.Order{Operator: d.operator, Reason: d.reason}
	if f.floor != "" {
		var err error
		if o.Floor, err = strconv.ParseInt(f.floor, 10, 64); err != nil || o.Floor <= 0 || strconv.FormatInt(o.Floor, 10) != f.floor {
			return usage("--floor is %q: a token is a decimal number from 1 to 9223372036854775807", f.floor)
		}
	}
	if err := c.fitting(f, o); err != nil {
		return err
	}
	var err error
	paydb := guard.PayDB{URL: c.config.PaymentsDatasourceURL, StatementTimeout: f.timeout}
	if o.Seen, err = paydb.Read(ctx); err != nil {
		return err
	}
	switch {
	case c.config.Backend == "pg":
		return c.guardLockDB(ctx, paydb, o)
	case f.snapshot.File != "":
		f.snapshot.Etcdutl, f.snapshot.Member = c.config.Etcdutl, map[string]string{}
		for name, value := range f.member {
			if *value != "" {
				f.snapshot.Member[name] = *value
			}
		}
		return c.restoreSnapshot(ctx, f.snapshot, paydb, o)
	}
	return c.endEtcdSessions(ctx, paydb, o)
}

// fitting refuses flags that do not belong to the backend, or to the step.
func (c *command) fitting(f restoreFlags, o guard.Order) error {
	etcds := f.snapshot.SkipHashCheck
	for _, value := range f.member {
		etcds = etcds || *value != ""
	}
	switch {
	case c.config.Backend == "pg" && (etcds || f.snapshot.File != "" || f.snapshot.DataDir != ""):
		return usage("--snapshot and what goes with it are for --backend etcd; lockdb is restored by PostgreSQL's own means")
	case c.config.Backend == "pg":
		return nil
	case (f.snapshot.File == "") != (f.snapshot.DataDir == ""):
		return usage("--snapshot and --data-dir go together: what is restored, and where to")
	case f.snapshot.File != "":
		return nil
	case etcds || o.Floor != 0:
		return usage("without --snapshot the sessions are ended of an etcd that was restored already, and no other flag says anything")
	case len(c.config.EtcdEndpoints) == 0:
		return usage("ETCD_ENDPOINTS or --endpoints has to name etcd's members, http://host:port, separated by commas")
	}
	return nil
}

// guarded is what restore-guard has done.
type guarded struct {
	Backend       string `json:"backend"`
	HighestSeen   int64  `json:"highestSeen"`
	SeenIn        string `json:"seenIn,omitempty"`
	StoodAt       *int64 `json:"stoodAt,omitempty"`
	NextToken     *int64 `json:"nextToken,omitempty"`
	DataDir       string `json:"dataDir,omitempty"`
	EndedSessions *int64 `json:"endedSessions,omitempty"`
}

// confirm asks, and then looks into paydb again: while somebody thought it over a worker may have used a higher token.
func (c *command) confirm(ctx context.Context, paydb guard.PayDB, o *guard.Order, format string, args ...any) (err error) {
	if err := c.ask(ctx, format, args...); err != nil || c.yes {
		return err
	}
	o.Seen, err = paydb.Read(ctx)
	return err
}

func (c *command) guardLockDB(ctx context.Context, paydb guard.PayDB, o guard.Order) error {
	db := guard.LockDB{URL: c.config.LockDatasourceURL, StatementTimeout: paydb.StatementTimeout}
	now, err := db.Read(ctx)
	if err != nil {
		return err
	}
	to, err := now.Plan(o)
	if err != nil {
		return err
	}
	if err := c.confirm(ctx, paydb, &o, "paydb has seen %s, and lockdb has handed out %d: have the next token be above %d, and end %d sessions?", o.Seen, now.Sequence, to, now.Sessions); err != nil {
		return err
	}
	m, err := db.Apply(ctx, o)
	if err != nil {
		return c.lostAnswer(err, "lockdb was moved and its sessions were ended")
	}
	return c.shown(guarded{Backend: "pg", HighestSeen: o.Seen.Token, SeenIn: o.Seen.Place, StoodAt: &m.From, NextToken: new(m.To + 1), EndedSessions: &m.EndedSessions})
}

func (c *command) restoreSnapshot(ctx context.Context, s guard.Snapshot, paydb guard.PayDB, o guard.Order) error {
	from, err := s.Revision(ctx)
	if err != nil {
		return err
	}
	bump, err := o.Plan(from)
	if err != nil {
		return err
	}
	if err := c.confirm(ctx, paydb, &o, "paydb has seen %s, and the snapshot is of revision %d: make %s from it, at revision %d?", o.Seen, from, s.DataDir, from+bump); err != nil {
		return err
	}
	revision, err := s.Restore(ctx, o)
	if err != nil {
		return err
	}
	return c.shown(guarded{Backend: "etcd", HighestSeen: o.Seen.Token, SeenIn: o.Seen.Place, StoodAt: &from, NextToken: new(revision + 1), DataDir: s.DataDir})
}

func (c *command) endEtcdSessions(ctx context.Context, paydb guard.PayDB, o guard.Order) error {
	cluster := guard.Etcd{Endpoints: c.config.EtcdEndpoints}
	now, err := cluster.Read(ctx)
	if err != nil {
		return err
	}
	if err := now.Check(o.Seen); err != nil {
		return err
	}
	if err := c.confirm(ctx, paydb, &o, "paydb has seen %s, and etcd stands at revision %d: end %d sessions?", o.Seen, now.Revision, now.Sessions); err != nil {
		return err
	}
	if now, err = cluster.Read(ctx); err != nil {
		return err
	}
	if err := now.Check(o.Seen); err != nil {
		return err
	}
	ended, err := cluster.EndSessions(ctx, o, now)
	if err != nil {
		return c.lostAnswer(err, "the sessions were ended")
	}
	return c.shown(guarded{Backend: "etcd", HighestSeen: o.Seen.Token, SeenIn: o.Seen.Place, EndedSessions: &ended})
}

// lostAnswer says what to do where the answer did not come: a guard may be carried out twice.
func (c *command) lostAnswer(err error, what string) error {
	if status(err) != Unknown {
		return err
	}
	return unknown(err, "it is not known whether %s. The same command again shows where it stands, and may safely be carried out twice.", what)
}

func (c *command) shown(g guarded) error {
	return c.report(g, func(t *table) {
		seen := guard.Seen{Token: g.HighestSeen, Place: g.SeenIn}
		t.row("PAYDB HAS SEEN", seen)
		if g.NextToken != nil {
			t.row("STOOD AT", *g.StoodAt)
			t.row("NEXT TOKEN", fmt.Sprintf("%d or above", *g.NextToken))
		}
		if g.DataDir != "" {
			t.row("DATA", g.DataDir)
			t.row("NEXT STEP", "start etcd from it, then restore-guard without --snapshot")
		}
		if g.EndedSessions != nil {
			t.row("ENDED SESSIONS", *g.EndedSessions)
		}
	})
}
