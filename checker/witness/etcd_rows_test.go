package witness

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"fenceproof/checker/history"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// kept is an etcd in memory: enough of one to make the changes that a watch would send.
type kept struct {
	rev  int64
	keys map[string]*mvccpb.KeyValue
}

// put and remove are one change of the revision after the present one.
func (k *kept) put(key, value string, lease int64) *mvccpb.Event {
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), Lease: lease, ModRevision: k.rev + 1, CreateRevision: k.rev + 1, Version: 1}
	e := &mvccpb.Event{Type: mvccpb.PUT, Kv: kv}
	if old := k.keys[key]; old != nil {
		e.PrevKv, kv.CreateRevision, kv.Version = old, old.CreateRevision, old.Version+1
	}
	k.keys[key] = kv
	return e
}

func (k *kept) remove(key string) *mvccpb.Event {
	e := &mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: k.rev + 1}, PrevKv: k.keys[key]}
	delete(k.keys, key)
	return e
}

func sessionValue(owner string) string {
	return fmt.Sprintf(`{"ownerId":%q,"ttlMillis":2000,"createdAt":"2026-01-02T03:04:05Z"}`, owner)
}

func grantValue(owner, session string) string {
	return fmt.Sprintf(`{"ownerId":%q,"sessionId":%q,"ttlMillis":3000,"acquiredAt":"2026-01-02T03:04:05Z"}`, owner, session)
}

func revocationValue(key string, token int64) string {
	return fmt.Sprintf(`{"key":%q,"ownerId":"a","sessionId":"s","revokedToken":%d,"operator":"op","reason":"stuck for good","revokedAt":"2026-01-02T03:04:05Z"}`, key, token)
}

// brief writes changes down in one line each.
func brief(changes []history.Change) string {
	var out []string
	for _, c := range changes {
		name := func(r row) string {
			if r == nil {
				return ""
			}
			switch c.Table {
			case "lock_session":
				return r["session_id"] + "/" + r["owner_id"] + "/" + r["ttl_ms"]
			case "lock_entry":
				return strings.Join([]string{r["lock_key"], r["owner_id"], r["session_id"], r["fencing_token"], r["ttl_ms"], r["lease"]}, "/")
			}
			return strings.Join([]string{r["lock_key"], r["prev_owner"], r["prev_token"], r["token_floor"], r["operator"], r["reason"]}, "/")
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s > %s", c.Kind, strings.TrimPrefix(c.Table, "lock_"), name(c.Old), name(c.New))))
	}
	return strings.Join(out, "; ")
}

func TestEtcdsChangesAreToldAsRowsOfTheLock(t *testing.T) {
	type change = func(k *kept) []*mvccpb.Event
	one := func(f func(k *kept) *mvccpb.Event) change {
		return func(k *kept) []*mvccpb.Event { return []*mvccpb.Event{f(k)} }
	}
	open := func(id, owner string) change {
		return one(func(k *kept) *mvccpb.Event { return k.put(sessionPrefix+id, sessionValue(owner), 1) })
	}
	grant := func(key, owner, session string) change {
		return one(func(k *kept) *mvccpb.Event { return k.put(lockPrefix+key, grantValue(owner, session), 7) })
	}
	gone := func(key string) change { return one(func(k *kept) *mvccpb.Event { return k.remove(key) }) }
	for _, c := range []struct {
		name    string
		changes []change
		want    []string // by revision, from 2 on: etcd's first change is revision 2
	}{
		{"a session and its end", []change{open("s", "a"), gone(sessionPrefix + "s")},
			[]string{"insert session  > s/a/2000", "delete session s/a/2000 >"}},
		{"a grant and its end", []change{open("s", "a"), grant("k", "a", "s"), gone(lockPrefix + "k")},
			[]string{"insert session  > s/a/2000", "insert entry  > k/a/s/3/3000/7", "delete entry k/a/s/3/3000/7 >"}},
		{"the session enters again", []change{open("s", "a"), grant("k", "a", "s"), grant("k", "a", "s")},
			[]string{"insert session  > s/a/2000", "insert entry  > k/a/s/3/3000/7", "update entry k/a/s/3/3000/7 > k/a/s/4/3000/7"}},
		{"a grant over another session's", []change{open("s", "a"), open("r", "b"), grant("k", "a", "s"), grant("k", "b", "r")},
			[]string{"insert session  > s/a/2000", "insert session  > r/b/2000", "insert entry  > k/a/s/4/3000/7", "update entry k/a/s/4/3000/7 > k/b/r/5/3000/7"}},
		{"the end of a session is that of its grants, and their cleaning is nothing",
			[]change{open("s", "a"), grant("z", "a", "s"), grant("k", "a", "s"), gone(sessionPrefix + "s"), gone(lockPrefix + "k"), gone(lockPrefix + "z")},
			[]string{"insert session  > s/a/2000", "insert entry  > z/a/s/3/3000/7", "insert entry  > k/a/s/4/3000/7",
				"delete session s/a/2000 >; delete entry k/a/s/4/3000/7 >; delete entry z/a/s/3/3000/7 >", "", ""}},
		{"a grant over one that ended with its session is a new one",
			[]change{open("s", "a"), grant("k", "a", "s"), gone(sessionPrefix + "s"), open("r", "b"), grant("k", "b", "r"), gone(sessionPrefix + "r")},
			[]string{"insert session  > s/a/2000", "insert entry  > k/a/s/3/3000/7", "delete session s/a/2000 >; delete entry k/a/s/3/3000/7 >",
				"insert session  > r/b/2000", "insert entry  > k/b/r/6/3000/7", "delete session r/b/2000 >; delete entry k/b/r/6/3000/7 >"}},
		{"a released grant does not end again with its session", []change{open("s", "a"), grant("k", "a", "s"), gone(lockPrefix + "k"), gone(sessionPrefix + "s")},
			[]string{"insert session  > s/a/2000", "insert entry  > k/a/s/3/3000/7", "delete entry k/a/s/3/3000/7 >", "delete session s/a/2000 >"}},
		{"a session closed together with the keys of its grants", []change{open("s", "a"), grant("k", "a", "s"), func(k *kept) []*mvccpb.Event {
			return []*mvccpb.Event{k.remove(sessionPrefix + "s"), k.remove(lockPrefix + "k")}
		}}, []string{"insert session  > s/a/2000", "insert entry  > k/a/s/3/3000/7", "delete session s/a/2000 >; delete entry k/a/s/3/3000/7 >"}},
		{"a revoke takes the grant in the same commit", []change{open("s", "a"), grant("k", "a", "s"), func(k *kept) []*mvccpb.Event {
			return []*mvccpb.Event{k.remove(lockPrefix + "k"), k.put(revocationPrefix+"u", revocationValue("k", 3), 0)}
		}}, []string{"insert session  > s/a/2000", "insert entry  > k/a/s/3/3000/7", "delete entry k/a/s/3/3000/7 >; insert revocation  > k/a/3/4/op/stuck for good"}},
		{"a grant to a session that is not there is told all the same", []change{grant("k", "a", "s"), gone(lockPrefix + "k")},
			[]string{"insert entry  > k/a/s/2/3000/7", "delete entry k/a/s/2/3000/7 >"}},
		{"keys that begin alike are keys of their own", []change{open("s", "a"), grant("k", "a", "s"), grant("k/lock/k", "a", "s"), gone(lockPrefix + "k")},
			[]string{"insert session  > s/a/2000", "insert entry  > k/a/s/3/3000/7", "insert entry  > k/lock/k/a/s/4/3000/7", "delete entry k/a/s/3/3000/7 >"}},
		{"what is none of the lock's is nothing", []change{one(func(k *kept) *mvccpb.Event { return k.put(etcdPrefix+"other", "x", 0) })}, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, rows := &kept{rev: 1, keys: map[string]*mvccpb.KeyValue{}}, newLockRows()
			var got []string
			for _, change := range c.changes {
				changes, err := rows.apply(change(k))
				if err != nil {
					t.Fatal(err)
				}
				k.rev++
				got = append(got, brief(changes))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("told as\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestWhatCannotBeToldAsRowsIsRefused(t *testing.T) {
	key := lockPrefix + "k"
	for _, c := range []struct {
		name string
		make func(k *kept) *mvccpb.Event
		want string
	}{
		{"a grant that is no grant", func(k *kept) *mvccpb.Event { return k.put(key, "nobody", 0) }, "is no grant"},
		{"a session that is no session", func(k *kept) *mvccpb.Event { return k.put(sessionPrefix+"r", "{", 0) }, "is no session"},
		{"a revocation that is none", func(k *kept) *mvccpb.Event { return k.put(revocationPrefix+"u", "[]", 0) }, "is no revocation"},
		{"an audit that is taken away", func(k *kept) *mvccpb.Event { return k.remove(revocationPrefix + "u") }, "changed or taken away"},
		{"the end of a grant that never began", func(k *kept) *mvccpb.Event { return k.remove(lockPrefix + "other") }, "never seen to begin"},
		{"a grant over one that was never seen", func(k *kept) *mvccpb.Event {
			k.keys[key] = &mvccpb.KeyValue{ModRevision: 2, CreateRevision: 2}
			k.rev = 9
			return k.put(key, grantValue("a", "s"), 0)
		}, "it was last seen at revision 4 and changed from that of revision 2"},
		{"a first grant of a key that was there", func(k *kept) *mvccpb.Event {
			delete(k.keys, key)
			return k.put(key, grantValue("a", "s"), 0)
		}, "it was last seen at revision 4 and changed from that of revision 0"},
		{"the end of another grant than the last one", func(k *kept) *mvccpb.Event {
			k.keys[key].ModRevision = 3
			return k.remove(key)
		}, "revisions between are missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, rows := &kept{rev: 1, keys: map[string]*mvccpb.KeyValue{}}, newLockRows()
			for _, e := range []func() *mvccpb.Event{
				func() *mvccpb.Event { return k.put(sessionPrefix+"s", sessionValue("a"), 1) },
				func() *mvccpb.Event { return k.put(key, grantValue("a", "s"), 1) },
				func() *mvccpb.Event { return k.put(key, grantValue("a", "s"), 1) },
			} {
				if _, err := rows.apply([]*mvccpb.Event{e()}); err != nil {
					t.Fatal(err)
				}
				k.rev++
			}
			kv := *k.keys[key]
			k.keys[key] = &kv
			if _, err := rows.apply([]*mvccpb.Event{c.make(k)}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestAPlaceInEtcdRecognisesEveryOtherHistory(t *testing.T) {
	type rev struct {
		rev   int64
		print uint64
	}
	for _, c := range []struct {
		name  string
		after []rev
		news  int
		err   string
	}{
		{"the same that went on", []rev{{5, 50}, {6, 60}}, 1, ""},
		{"nothing new", []rev{{5, 50}}, 0, ""},
		{"something else at the last revision", []rev{{5, 51}}, 0, "put back to an older state"},
		{"nothing at the last revision", []rev{{6, 60}}, 0, "put back to an older state"},
		{"a revision that goes back", []rev{{5, 50}, {4, 40}}, 0, "it went back"},
		{"a revision that comes twice", []rev{{5, 50}, {5, 50}}, 0, "it went back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p revisionPlace
			if from := p.resume(); from != 1 {
				t.Fatalf("a place that saw nothing begins at revision %d", from)
			}
			for _, r := range []rev{{2, 20}, {5, 50}} {
				if seen, err := p.see(r.rev, r.print); seen || err != nil {
					t.Fatalf("revision %d: seen %t, %v", r.rev, seen, err)
				}
			}
			if from := p.resume(); from != 5 {
				t.Fatalf("it resumes at revision %d, want 5", from)
			}
			news := 0
			var err error
			for _, r := range c.after {
				var seen bool
				if seen, err = p.see(r.rev, r.print); err != nil {
					break
				}
				if !seen {
					news++
				}
			}
			if news != c.news || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d new and %v, want %d and %q", news, err, c.news, c.err)
			}
		})
	}
}
