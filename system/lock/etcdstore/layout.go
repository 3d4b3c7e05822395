package etcdstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fenceproof/system/lock"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The keys of etcd. A lock's key holds the bytes of its name as they are and is only ever read by its whole name, so that
// no name can touch another's.
const (
	prefix           = "fenceproof/"
	lockPrefix       = prefix + "lock/"
	sessionPrefix    = prefix + "session/"
	revocationPrefix = prefix + "revocation/"
)

// What a guard of a restored etcd has to know of the layout.
const (
	Prefix        = prefix              // begins every key of the store
	SessionPrefix = sessionPrefix       // begins every session's key, with whose deletion the session and all its grants end
	RestorePrefix = prefix + "restore/" // begins the keys under which a guard writes down that it was there
)

// held is what a lock's key carries: the right of one session, until the lease ends.
type held struct {
	token      int64 // the key's ModRevision: the revision of the transaction that put it
	lease      int64
	ownerID    string
	sessionID  string
	ttl        time.Duration
	acquiredAt time.Time
}

// grantValue is the value of a lock's key.
type grantValue struct {
	OwnerID    string    `json:"ownerId"`
	SessionID  string    `json:"sessionId"`
	TTLMillis  int64     `json:"ttlMillis"`
	AcquiredAt time.Time `json:"acquiredAt"`
}

// sessionValue is the value of a session's key.
type sessionValue struct {
	OwnerID   string    `json:"ownerId"`
	TTLMillis int64     `json:"ttlMillis"`
	CreatedAt time.Time `json:"createdAt"`
}

// revocationValue is the value of a revocation's key: the audit, kept for ever.
type revocationValue struct {
	Key          string    `json:"key"`
	OwnerID      string    `json:"ownerId"`
	SessionID    string    `json:"sessionId"`
	RevokedToken int64     `json:"revokedToken"`
	Operator     string    `json:"operator"`
	Reason       string    `json:"reason"`
	RevokedAt    time.Time `json:"revokedAt"`
}

// encode writes a value. Its types have no value that JSON cannot bear.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(b)
}

// heldOf reads a lock's key.
func heldOf(kv *mvccpb.KeyValue) (held, error) {
	var v grantValue
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		return held{}, fmt.Errorf("key %q of etcd holds no grant: %w", kv.Key, err)
	}
	return held{token: kv.ModRevision, lease: kv.Lease, ownerID: v.OwnerID, sessionID: v.SessionID,
		ttl: fromMillis(v.TTLMillis), acquiredAt: v.AcquiredAt}, nil
}

// grant is h as the contract has it.
func (h held) grant(key string, expiresAt time.Time) lock.Grant {
	return lock.Grant{Key: key, OwnerID: h.ownerID, SessionID: h.sessionID, FencingToken: h.token, TTL: h.ttl,
		AcquiredAt: h.acquiredAt, ExpiresAt: expiresAt}
}

// exists holds while the key is there.
func exists(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), ">", 0) }

// absent holds while it is not.
func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

// carries holds while the lock's key carries token.
func carries(key string, token int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(lockPrefix+key), "=", token)
}

// isID tells whether s has the form of a session id. What has not was never one.
func isID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

func fromMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// wall is t without its monotonic reading, as others will read it.
func wall(t time.Time) time.Time { return t.Round(0).UTC() }

func lockOf(key []byte) (string, bool)    { return strings.CutPrefix(string(key), lockPrefix) }
func sessionOf(key []byte) (string, bool) { return strings.CutPrefix(string(key), sessionPrefix) }
