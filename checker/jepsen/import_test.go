package jepsen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/history"
	"fenceproof/checker/jepsen"
)

// The shapes in which tests of etcd, ZooKeeper, Hazelcast and others write what their clients did with a lock.
func TestTheHistoriesOfJepsensLockTestsAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		options jepsen.ImportOptions
		want    string
	}{
		"etcd and ZooKeeper: a mutex that is kept": {text: `
{:type :invoke, :f :acquire, :value nil, :process 0, :time 1, :index 0}
{:type :ok, :f :acquire, :value nil, :process 0, :time 2, :index 1}
{:type :invoke, :f :acquire, :value nil, :process 1, :time 3, :index 2}
{:type :invoke, :f :release, :value nil, :process 0, :time 4, :index 3}
{:type :ok, :f :release, :value nil, :process 0, :time 5, :index 4}
{:type :ok, :f :acquire, :value nil, :process 1, :time 6, :index 5}
{:type :invoke, :f :release, :value nil, :process 0, :time 7, :index 6}
{:type :fail, :f :release, :value nil, :process 0, :time 8, :error :not-held, :index 7}`, want: "pass"},
		"etcd: the lease ran out under its holder": {text: `
{:type :invoke, :f :acquire, :process 0, :time 1}
{:type :ok, :f :acquire, :process 0, :time 2}
{:type :invoke, :f :acquire, :process 1, :time 3}
{:type :ok, :f :acquire, :process 1, :time 4}
{:type :invoke, :f :release, :process 0, :time 5}
{:type :ok, :f :release, :process 0, :time 6, :error [:lease-not-found "requested lease not found"]}`,
			want: "process-1 was granted key lock, although process-0 held it"},
		"and its test knew that it had lost it": {text: `
{:type :invoke, :f :acquire, :process 0, :time 1}
{:type :ok, :f :acquire, :process 0, :time 2}
{:type :invoke, :f :acquire, :process 1, :time 3}
{:type :ok, :f :acquire, :process 1, :time 4}
{:type :invoke, :f :release, :process 0, :time 5}
{:type :fail, :f :release, :process 0, :time 6, :error [:lease-not-found "requested lease not found"]}`, want: "pass"},
		"the same within the time of a lease": {text: `
{:type :invoke, :f :acquire, :process 0, :time 1000000}
{:type :ok, :f :acquire, :process 0, :time 2000000}
{:type :invoke, :f :acquire, :process 1, :time 3000000}
{:type :ok, :f :acquire, :process 1, :time 4000000}`, options: jepsen.ImportOptions{TTL: 2 * time.Second},
			want: "process-1 was granted key lock, although process-0 held it"},
		"and after it": {text: `
{:type :invoke, :f :acquire, :process 0, :time 1000000}
{:type :ok, :f :acquire, :process 0, :time 2000000}
{:type :invoke, :f :acquire, :process 1, :time 3000000}
{:type :ok, :f :acquire, :process 1, :time 2002000000}`, options: jepsen.ImportOptions{TTL: 2 * time.Second}, want: "pass"},
		"a release of which nobody knows": {text: `
{:type :invoke, :f :acquire, :process 0, :time 1}
{:type :ok, :f :acquire, :process 0, :time 2}
{:type :invoke, :f :release, :process 0, :time 3}
{:type :info, :f :release, :process 0, :time 4, :error :timeout}
{:type :invoke, :f :acquire, :process 1, :time 5}
{:type :ok, :f :acquire, :process 1, :time 6}`, want: "pass"},
		"a failed release that says nothing": {text: `
{:type :invoke, :f :acquire, :process 0, :time 1}
{:type :ok, :f :acquire, :process 0, :time 2}
{:type :invoke, :f :release, :process 0, :time 3}
{:type :fail, :f :release, :process 0, :time 4, :error :client-down}
{:type :invoke, :f :acquire, :process 1, :time 5}
{:type :ok, :f :acquire, :process 1, :time 6}`, want: "process-1 was granted key lock, although process-0 held it"},
		"Hazelcast's fenced lock, as records": {text: `
#jepsen.history.Op{:index 0, :time 1, :type :invoke, :process 0, :f :acquire, :value "uid-1"}
#jepsen.history.Op{:index 1, :time 2, :type :ok, :process 0, :f :acquire, :value {:client "hz.client_1", :fence 7, :uid "uid-1"}}
#jepsen.history.Op{:index 2, :time 3, :type :invoke, :process 0, :f :release, :value "uid-2"}
#jepsen.history.Op{:index 3, :time 4, :type :ok, :process 0, :f :release, :value {:client "hz.client_1", :fence 0, :uid "uid-2"}}
#jepsen.history.Op{:index 4, :time 5, :type :invoke, :process 1, :f :acquire, :value "uid-3"}
#jepsen.history.Op{:index 5, :time 6, :type :ok, :process 1, :f :acquire, :value {:client "hz.client_2", :fence 7, :uid "uid-3"}}`,
			want: "process-1 was granted key lock with token 7 after token 7 had been granted"},
		"its client outlives its process": {text: `
{:type :invoke, :process 0, :f :acquire, :value "u1", :time 1}
{:type :ok, :process 0, :f :acquire, :value {:client "c1", :fence 1, :uid "u1"}, :time 2}
{:type :invoke, :process 0, :f :release, :value "u2", :time 3}
{:type :info, :process 0, :f :release, :value "u2", :error :io-exception, :time 4}
{:type :invoke, :process 5, :f :acquire, :value "u3", :time 5}
{:type :info, :process 5, :f :acquire, :value "u3", :error :exception, :time 6}
{:type :invoke, :process 10, :f :release, :value "u4", :time 7}
{:type :ok, :process 10, :f :release, :value {:client "c1", :fence 0, :uid "u4"}, :time 8}`, want: "pass"},
		"released by a client that never had it": {text: `
{:type :invoke, :process 0, :f :acquire, :value "u1", :time 1}
{:type :ok, :process 0, :f :acquire, :value {:client "c1", :fence 1, :uid "u1"}, :time 2}
{:type :invoke, :process 1, :f :release, :value "u2", :time 3}
{:type :ok, :process 1, :f :release, :value {:client "c2", :fence 0, :uid "u2"}, :time 4}`,
			want: "process-1 released key lock, although process-0 held it with token 1"},
		"independent locks in a vector": {text: `
[{:type :invoke, :process 0, :f :acquire, :value ["a" nil]} {:type :ok, :process 0, :f :acquire, :value ["a" nil]}
 {:type :invoke, :process 1, :f :acquire, :value ["b" nil]} {:type :ok, :process 1, :f :acquire, :value ["b" nil]}
 {:type :invoke, :process 2, :f :acquire, :value [[1 2] nil]} {:type :ok, :process 2, :f :acquire, :value [[1 2] nil]}]`, want: "pass"},
		"locks that the value names": {text: `
{:type :invoke, :process 0, :f :lock, :value "alpha"} {:type :ok, :process 0, :f :lock, :value "[a token of its own]"}
{:type :invoke, :process 1, :f :lock, :value "bravo"} {:type :ok, :process 1, :f :lock, :value "[another]"}
{:type :invoke, :process 2, :f :lock, :value "alpha"} {:type :fail, :process 2, :f :lock, :value "alpha" :error #error {:cause "no"}}
{:type :invoke, :process 1, :f :refresh, :value "bravo"} {:type :ok, :process 1, :f :refresh, :value ""}`,
			options: jepsen.ImportOptions{ValueIsKey: true}, want: "pass"},
		"a number that a grant answers is its token": {text: `
{:type :invoke, :process 0, :f :acquire, :value nil} {:type :ok, :process 0, :f :acquire, :value 5}
{:type :invoke, :process 0, :f :release, :value nil} {:type :ok, :process 0, :f :release, :value nil}
{:type :invoke, :process 1, :f :acquire, :value nil} {:type :ok, :process 1, :f :acquire, :value 4}`,
			want: "process-1 was granted key lock with token 4 after token 5 had been granted"},
		"a number that the request had is none": {text: `
{:type :invoke, :process 0, :f :acquire, :value 5} {:type :ok, :process 0, :f :acquire, :value 5}
{:type :invoke, :process 0, :f :release, :value 6} {:type :ok, :process 0, :f :release, :value 6}
{:type :invoke, :process 1, :f :acquire, :value 4} {:type :ok, :process 1, :f :acquire, :value 4}`, want: "pass"},
		"a test that was cut off": {text: `
{:type :invoke, :process 0, :f :acquire} {:type :ok, :process 0, :f :acquire}
{:type :invoke, :process 0, :f :release} {:type :invoke, :process 1, :f :acquire}
{:type :invoke, :process 2, :f :acquire} {:type :ok, :process 2, :f :acquire}`, want: "pass"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := imported(t, c.text, c.options)
			if got := story(judge(t, dir)); got != c.want {
				t.Errorf("it is judged %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatIsNoHistoryOfALockIsRefusedWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                                        "line 1, column 1: the history has no operation of a lock",
		"{:type :invoke, :f :read, :process 0}":   "the history has no operation of a lock",
		"{:f :acquire, :process 0}":               "line 1, column 1: the operation has no :type",
		"{:type :done :f :acquire :process 0}":    "line 1, column 8: :type is :invoke, :ok, :fail or :info, and not done",
		"{:type :ok :f :acquire}":                 "line 1, column 1: the operation has no :process",
		"{:type :ok :process 0}":                  "line 1, column 1: the operation has no :f",
		"{:type :ok :process -1 :f :acquire}":     "line 1, column 21: a :process is counted from 0, and not -1",
		"\n {:type :ok, :f :acquire, :process 0}": "line 2, column 2: process 0 ends an operation that it has not begun",
		"{:type :invoke, :f :acquire, :process 0}\n{:type :invoke, :f :release, :process 0}":                                 "line 2, column 1: process 0 begins an operation although that of line 1 has not ended",
		"{:type :invoke, :f :acquire, :process 0}\n{:type :ok, :f :release, :process 0}":                                     "line 2, column 1: process 0 ends another operation than it has begun in line 1",
		"{:type :invoke, :f :acquire, :process 0 :time 1.5}":                                                                 "line 1, column 47: :time is a number of nanoseconds",
		"{:type :invoke, :f :acquire, :process 0 :fence 99999999999999999999}":                                               ":fence is 99999999999999999999; it is a whole number of 64 bits",
		"{:type :invoke, :f :acquire, :process 0 :value nil}{:type :ok, :f :acquire, :process 0 :value 9223372036854775808}": "line 1, column 52: the answer to an acquire is 9223372036854775808; a token is a whole number of 64 bits",
		"{:type :invoke, :f :acquire, :process 0 :ttl-ms 9}":                                                                 "line 1, column 1: leases are judged by the time, and this operation has no :time",
		"{:type :invoke, :f :acquire, :process 0 :time 5000000000 :ttl-ms 9}{:type :ok, :f :acquire, :process 0 :time 3}":    "line 1, column 68: leases are judged by the time, and the :time of this operation is 4.999999997s before",
		"{:type :invoke, :f :acquire, :process 0 :key \"" + strings.Repeat("k", 5000) + "\"}":                                "a name has more than 4096 bytes: kkkk",
		granted(`:value {:fence "5"}`):                `line 2, column 53: :fence of a grant is "5"; a token is a whole number of 64 bits, from 1`,
		granted(`:value {:fence 0}`):                  "line 2, column 53: :fence of a grant is 0; a token is",
		granted(`:value ["k" {:client 1 :token -3}]`): "line 2, column 68: :token of a grant is -3; a token is",
		granted(`:value nil :fence 5.0`):              ":fence is 5.0; it is a whole number of 64 bits",
		granted(`:value 7 :token :none`):              "line 2, column 54: :token of a grant is no number; a token is",
		granted(`:fence [5]`):                         "line 2, column 45: :fence of a grant is no number; a token is",
		granted(`:value 0`):                           "line 2, column 1: the answer to an acquire is 0; a token is a whole number of 64 bits, from 1",
		granted(`:value -3`):                          "line 2, column 1: the answer to an acquire is -3; a token is",
		"[1 2]":                                       "line 1, column 2: an operation is a map",
		"#jepsen.history.Op [0 1]":                    "line 1, column 1: #jepsen.history.Op is no operation: a record is written as #jepsen.history.Op{:type :invoke, …}",
		"{:name \"etcd\" :history []}":                "this is a map with a :history in it",
		"{:type :invoke":                              "line 1, column 15: the text ends in the middle of a form",
	} {
		dir := t.TempDir()
		_, err := jepsen.Import(strings.NewReader(text), dir, jepsen.ImportOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%q left %v", text, left)
		}
	}
}

// granted is a grant of which the answer says so.
func granted(said string) string {
	return "{:type :invoke, :f :acquire, :process 0, :value nil}\n{:type :ok, :f :acquire, :process 0, " + said + "}"
}

// What names no token that is judged, and would be refused of a grant.
func TestOnlyAGrantMustHaveATokenThatCanBeJudged(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		tokens int64
	}{
		"one that holds nothing gives back":     {"{:type :invoke, :f :release, :process 0}{:type :ok, :f :release, :process 0, :value {:fence 0}}", 0},
		"one that is refused":                   {"{:type :invoke, :f :acquire, :process 0}{:type :fail, :f :acquire, :process 0, :value {:fence -1}}", 0},
		"a request that is told apart by it":    {`{:type :invoke, :f :acquire, :process 0, :value {:token "uid"}}{:type :ok, :f :acquire, :process 0, :value {:fence 5}}`, 1},
		"a token beside what is none":           {granted(`:value {:token "uid", :fence 5}`), 1},
		"no token":                              {granted(":value {:fence nil}"), 0},
		"a number that the request had already": {"{:type :invoke, :f :acquire, :process 0, :value 0}{:type :ok, :f :acquire, :process 0, :value 0}", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if _, made := imported(t, c.text, jepsen.ImportOptions{}); made.Tokens != c.tokens {
				t.Errorf("%d grants have a token, want %d", made.Tokens, c.tokens)
			}
		})
	}
}

func TestAnImportOverwritesNothing(t *testing.T) {
	const text = "{:type :invoke, :f :acquire, :process 0}"
	dir, _ := imported(t, text, jepsen.ImportOptions{})
	before, err := os.ReadFile(filepath.Join(dir, "wiretap.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jepsen.Import(strings.NewReader(text), filepath.Dir(dir), jepsen.ImportOptions{}); err == nil || !strings.Contains(err.Error(), "has a history already") {
		t.Errorf("the second one: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "wiretap.ndjson")); err != nil || string(after) != string(before) {
		t.Errorf("it was changed (%v)", err)
	}
}

func TestAnImportSaysWhatItTookAndWhatItPassedOver(t *testing.T) {
	dir, made := imported(t, `
{:type :info, :process :nemesis, :f :start} {:type :info, :process :nemesis, :f :start, :value "cut"}
{:type :invoke, :process 0, :f :acquire, :value "x"} {:type :ok, :process 0, :f :acquire, :value {:fence 3}}
{:type :invoke, :process 0, :f :read} {:type :ok, :process 0, :f :read, :value 1}
{:type :invoke, :process 0, :f :release, :value "x"}`, jepsen.ImportOptions{})
	if made.Calls != 2 || made.Open != 1 || made.Tokens != 1 || made.Keys != 1 || made.Names != 2 || made.PassedOver["process :nemesis"] != 2 || made.PassedOver[":f :read"] != 2 {
		t.Errorf("%+v", made)
	}
	r, err := history.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for n := int64(0); ; n++ {
		var e history.Event
		if err := r.Next(&e); err != nil {
			if n != made.Events || len(r.Gaps()) > 0 || len(r.Unrecorded()) != len(history.Witnesses())-1 {
				t.Errorf("%d of %d events, then %v; gaps %v, not recorded %v", n, made.Events, err, r.Gaps(), r.Unrecorded())
			}
			return
		}
	}
}
