package witness

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fenceproof/checker/history"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Where the lock keeps what in etcd. A grant lives while its own key and its session's key exist.
const (
	etcdPrefix       = "fenceproof/"
	etcdPrefixEnd    = "fenceproof0" // the first key behind all that begin with the prefix
	sessionPrefix    = etcdPrefix + "session/"
	lockPrefix       = etcdPrefix + "lock/"
	revocationPrefix = etcdPrefix + "revocation/"
)

// lockRows translates etcd's changes into changes of the rows that lockdb has: lock_session, lock_entry and
// lock_revocation, without the columns that hold times. It keeps the rows there are, and of a lock key whose session has
// ended that it is still to be cleaned away: memory grows with what etcd holds.
//
//   - fencing_token is the key's revision, lease its lease's id, token_floor the revision of the revoke; all in decimal.
//   - The end of a session is the end of all its grants: they are deleted in the same commit. What etcd itself removes of
//     them later is only cleaning and no change of a row.
//   - A put over a grant that lives is an update; over one that has ended, an insert.
type lockRows struct {
	sessions map[string]*sessionRow
	grants   map[string]*grantRow // by lock key
}

type row = map[string]string

type sessionRow struct {
	revision int64 // of its key
	row      row
	grants   map[string]struct{} // its living grants, by lock key
}

type grantRow struct {
	revision int64
	row      row
	living   bool
}

func newLockRows() *lockRows {
	return &lockRows{sessions: map[string]*sessionRow{}, grants: map[string]*grantRow{}}
}

// apply takes the changes of one revision. An error means that they cannot be told as rows: they do not follow from what
// was seen before, or hold something else than the lock's layout says.
func (l *lockRows) apply(events []*mvccpb.Event) (changes []history.Change, err error) {
	for _, e := range events {
		if changes, err = l.take(changes, e); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// take takes one change.
func (l *lockRows) take(changes []history.Change, e *mvccpb.Event) (_ []history.Change, err error) {
	key := string(e.Kv.Key)
	switch {
	case strings.HasPrefix(key, sessionPrefix):
		changes, err = l.session(changes, e, key[len(sessionPrefix):])
	case strings.HasPrefix(key, lockPrefix):
		changes, err = l.grant(changes, e, key[len(lockPrefix):])
	case strings.HasPrefix(key, revocationPrefix):
		changes, err = l.revocation(changes, e)
	}
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	return changes, nil
}

// follows tells whether e changes its key from the revision that was seen last; 0 for no such key. Where etcd names the
// value before, or says that the key is new, that must agree.
func follows(e *mvccpb.Event, known int64) error {
	before := int64(-1) // etcd does not say
	switch {
	case e.PrevKv != nil:
		before = e.PrevKv.ModRevision
	case e.Type == mvccpb.PUT && e.Kv.CreateRevision == e.Kv.ModRevision:
		before = 0
	case known == 0:
		return errors.New("it changes or ends something that was never seen to begin: revisions between are missing")
	}
	if before >= 0 && before != known {
		return fmt.Errorf("it was last seen at revision %d and changed from that of revision %d: revisions between are missing", known, before)
	}
	return nil
}

func (l *lockRows) session(changes []history.Change, e *mvccpb.Event, id string) ([]history.Change, error) {
	s := l.sessions[id]
	var known int64
	if s != nil {
		known = s.revision
	}
	if err := follows(e, known); err != nil {
		return nil, err
	}
	if e.Type == mvccpb.DELETE {
		delete(l.sessions, id)
		changes = append(changes, history.Change{Table: "lock_session", Kind: history.Delete, Old: s.row})
		for _, key := range slices.Sorted(maps.Keys(s.grants)) {
			g := l.grants[key]
			g.living = false
			changes = append(changes, history.Change{Table: "lock_entry", Kind: history.Delete, Old: g.row})
		}
		return changes, nil
	}
	var v struct {
		OwnerID   string `json:"ownerId"`
		TTLMillis int64  `json:"ttlMillis"`
	}
	if err := json.Unmarshal(e.Kv.Value, &v); err != nil {
		return nil, fmt.Errorf("its value %.200q is no session: %w", e.Kv.Value, err)
	}
	c := history.Change{Table: "lock_session", Kind: history.Insert,
		New: row{"session_id": id, "owner_id": v.OwnerID, "ttl_ms": decimal(v.TTLMillis)}}
	if s != nil {
		c.Kind, c.Old = history.Update, s.row
	} else {
		s = &sessionRow{grants: map[string]struct{}{}}
		l.sessions[id] = s
	}
	s.revision, s.row = e.Kv.ModRevision, c.New
	return append(changes, c), nil
}

func (l *lockRows) grant(changes []history.Change, e *mvccpb.Event, key string) ([]history.Change, error) {
	g := l.grants[key]
	var known int64
	if g != nil {
		known = g.revision
	}
	if err := follows(e, known); err != nil {
		return nil, err
	}
	if e.Type == mvccpb.DELETE {
		delete(l.grants, key)
		if g.living {
			l.leave(g, key)
			changes = append(changes, history.Change{Table: "lock_entry", Kind: history.Delete, Old: g.row})
		}
		return changes, nil
	}
	var v struct {
		OwnerID   string `json:"ownerId"`
		SessionID string `json:"sessionId"`
		TTLMillis int64  `json:"ttlMillis"`
	}
	if err := json.Unmarshal(e.Kv.Value, &v); err != nil {
		return nil, fmt.Errorf("its value %.200q is no grant: %w", e.Kv.Value, err)
	}
	c := history.Change{Table: "lock_entry", Kind: history.Insert, New: row{
		"lock_key": key, "owner_id": v.OwnerID, "session_id": v.SessionID, "fencing_token": decimal(e.Kv.ModRevision),
		"ttl_ms": decimal(v.TTLMillis), "lease": decimal(e.Kv.Lease)}}
	if g != nil && g.living {
		l.leave(g, key)
		c.Kind, c.Old = history.Update, g.row
	}
	// A grant to a session that has no key never lives. It is told as one all the same, or nobody would see that it was made.
	l.grants[key] = &grantRow{revision: e.Kv.ModRevision, row: c.New, living: true}
	if s := l.sessions[v.SessionID]; s != nil {
		s.grants[key] = struct{}{}
	}
	return append(changes, c), nil
}

// leave takes a grant from its session.
func (l *lockRows) leave(g *grantRow, key string) {
	if s := l.sessions[g.row["session_id"]]; s != nil {
		delete(s.grants, key)
	}
}

// revocation: the audit of revokes is only ever added to.
func (l *lockRows) revocation(changes []history.Change, e *mvccpb.Event) ([]history.Change, error) {
	if e.Type == mvccpb.DELETE || e.Kv.CreateRevision != e.Kv.ModRevision {
		return nil, errors.New("a row of the audit was changed or taken away")
	}
	var v struct {
		Key          string `json:"key"`
		OwnerID      string `json:"ownerId"`
		RevokedToken int64  `json:"revokedToken"`
		Operator     string `json:"operator"`
		Reason       string `json:"reason"`
	}
	if err := json.Unmarshal(e.Kv.Value, &v); err != nil {
		return nil, fmt.Errorf("its value %.200q is no revocation: %w", e.Kv.Value, err)
	}
	return append(changes, history.Change{Table: "lock_revocation", Kind: history.Insert, New: row{
		"lock_key": v.Key, "prev_owner": v.OwnerID, "prev_token": decimal(v.RevokedToken), "operator": v.Operator, "reason": v.Reason,
		"token_floor": decimal(e.Kv.ModRevision)}}), nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// sizeOf is how many bytes changes have as JSON, at least.
func sizeOf(changes []history.Change) int {
	size := 0
	for i := range changes {
		size += changeBytes
		for _, r := range []row{changes[i].Old, changes[i].New} {
			for column, value := range r {
				size += len(column) + len(value) + len(`"":"",`)
			}
		}
	}
	return size
}
