package jepsen_test

import (
	"strings"
	"testing"
	"time"

	"fenceproof/checker/jepsen"
)

// What the tests of locks tell and leave out, judged as an expert in them would.
func TestWhatTestsOfLocksLeaveOutAccusesNobodyAndHidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		options jepsen.ImportOptions
		want    string
	}{
		"refused, and perhaps granted": {text: `
{:type :invoke :f :acquire :process 0 :time 10}{:type :ok :f :acquire :process 0 :time 20}{:type :invoke :f :release :process 0 :time 25}
{:type :invoke :f :acquire :process 1 :time 27}{:type :invoke :f :acquire :process 2 :time 28}{:type :ok :f :release :process 0 :time 35}
{:type :fail :f :acquire :process 1 :error :already-locked :time 40}{:type :info :f :acquire :process 2 :time 45}
{:type :invoke :f :acquire :process 3 :time 50}{:type :ok :f :acquire :process 3 :time 60}`, want: "pass"},
		"revoked, and no token is told": {text: `
{:type :invoke :f :acquire :process 0}{:type :ok :f :acquire :process 0}{:type :invoke :f :revoke :process 9}{:type :ok :f :revoke :process 9 :value nil}
{:type :invoke :f :acquire :process 1}{:type :ok :f :acquire :process 1}`, want: "pass"},
		"Hazelcast: its client has lost what it gives back": {text: `
{:type :invoke :process 0 :f :acquire :value "u1"}{:type :ok :process 0 :f :acquire :value {:client "c1" :fence 1 :uid "u1"}}
{:type :invoke :process 1 :f :acquire :value "u2"}{:type :ok :process 1 :f :acquire :value {:client "c2" :fence 2 :uid "u2"}}
{:type :invoke :process 0 :f :release :value "u3"}{:type :fail :process 0 :f :release :value "u3" :error :not-lock-owner}`, want: "pass"},
		"refused by one's own grant": {text: `
{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}{:type :invoke :process 0 :f :release}{:type :fail :process 0 :f :release :error :client-down}
{:type :invoke :process 0 :f :acquire}{:type :fail :process 0 :f :acquire :error :already-locked}`, want: "pass"},
		"refused because of another's": {text: `
{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}{:type :invoke :process 0 :f :acquire}{:type :fail :process 0 :f :acquire :error :held-by-another}`,
			want: "process-0 was refused key lock as held by another, although process-0 held it"},
		"two at once by a clock that stands still": {text: `
{:type :invoke :process 0 :f :acquire :time 0}{:type :ok :process 0 :f :acquire :time 0}{:type :invoke :process 1 :f :acquire :time 0}{:type :ok :process 1 :f :acquire :time 0}
{:type :invoke :process 0 :f :release :time 0}{:type :ok :process 0 :f :release :time 0}{:type :invoke :process 1 :f :release :time 0}{:type :ok :process 1 :f :release :time 0}`,
			want: "process-1 was granted key lock, although process-0 held it"},
		"a session of unknown length": {text: `
{:type :invoke :process 0 :f :open-session}{:type :ok :process 0 :f :open-session :session "a"}{:type :invoke :process 0 :f :acquire :session "a"}{:type :ok :process 0 :f :acquire :session "a"}
{:type :invoke :process 1 :f :acquire :session "b"}{:type :ok :process 1 :f :acquire :session "b"}`, want: "process-1 was granted key lock, although process-0 held it"},
		"granted to its holder": {text: `{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}`,
			want: "process-0 was granted key lock, although process-0 held it"},
		"which may be": {text: `{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}`,
			options: jepsen.ImportOptions{Reentrant: true}, want: "pass"},
		"two threads of one client": {text: `{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire :client "c"}{:type :invoke :process 1 :f :acquire}{:type :ok :process 1 :f :acquire :client "c"}`,
			want: "process-1 was granted key lock, although process-0 held it"},
		"an error that is a map":    {text: twoAnd(`{:type :lease-not-found}`), want: "pass"},
		"an exception":              {text: twoAnd(`#error {:cause "requested lease not found" :via [{:type io.etcd.Exception}]}`), want: "pass"},
		"ZooKeeper's exception":     {text: twoAnd(`"KeeperErrorCode = NoNode for /lock/7"`), want: "pass"},
		"a client without a server": {text: twoAnd(`"There are no nodes available"`), want: "process-1 was granted key lock, although process-0 held it"},
		"its exception":             {text: twoAnd(`"NoNodeAvailableException: all hosts failed"`), want: "process-1 was granted key lock, although process-0 held it"},
		"its session is another later": {text: `
{:type :invoke :process 0 :f :acquire :session "a"}{:type :ok :process 0 :f :acquire}{:type :invoke :process 0 :f :release}{:type :ok :process 0 :f :release}
{:type :invoke :process 0 :f :acquire :session "b"}{:type :ok :process 0 :f :acquire}`, want: "pass"},
		"its client is named later": {text: `
{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}{:type :invoke :process 0 :f :release}{:type :ok :process 0 :f :release :client "c"}`, want: "pass"},
		"both are named, and then none": {text: `
{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire :session "s" :client "c"}{:type :invoke :process 0 :f :release}{:type :ok :process 0 :f :release}`, want: "pass"},
		"given back by the process that came in another's place": {text: `
{:type :invoke :process 0 :f :acquire}{:type :info :process 0 :f :acquire}{:type :invoke :process 5 :f :release}{:type :ok :process 5 :f :release}`, want: "pass"},
		"and after a release of which nobody knows": {text: `
{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}{:type :invoke :process 0 :f :release}{:type :info :process 0 :f :release}
{:type :invoke :process 5 :f :release}{:type :ok :process 5 :f :release}{:type :invoke :process 1 :f :acquire}{:type :ok :process 1 :f :acquire}`, want: "pass"},
		"given back by somebody who never had it": {text: `
{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}{:type :invoke :process 5 :f :release}{:type :ok :process 5 :f :release}`,
			want: "process-5 released key lock, although process-0 held it"},
		"lost by a client of unknown name": {text: `
{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire :client "c1"}{:type :invoke :process 0 :f :release}{:type :info :process 0 :f :release :error :timeout}
{:type :invoke :process 1 :f :acquire}{:type :ok :process 1 :f :acquire :client "c2"}{:type :invoke :process 5 :f :release}{:type :fail :process 5 :f :release :error :not-lock-owner}`, want: "pass"},
		"a process that came in another's place has nothing to give back": {text: `
{:type :invoke :process 1 :f :acquire}{:type :info :process 1 :f :acquire}{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}
{:type :invoke :process 2 :f :acquire}{:type :ok :process 2 :f :acquire}{:type :invoke :process 6 :f :release}{:type :fail :process 6 :f :release :error :not-held}`,
			want: "process-2 was granted key lock, although process-0 held it"},
		"refused while nobody can have it but somebody unknown": {text: `
{:type :invoke :process 0 :f :renew}{:type :fail :process 0 :f :renew :error :not-held :client "c1"}{:type :invoke :process 5 :f :acquire}{:type :info :process 5 :f :acquire}
{:type :invoke :process 1 :f :acquire}{:type :fail :process 1 :f :acquire :error :held-by-another}{:type :invoke :process 0 :f :release}{:type :fail :process 0 :f :release :error :not-lock-owner}`, want: "pass"},
		"a fence that stands beside the value": {text: `
{:type :invoke :process 0 :f :acquire :value "u1"}{:type :ok :process 0 :f :acquire :value "u1" :fence 5}{:type :invoke :process 0 :f :release :value "u2"}{:type :ok :process 0 :f :release :value "u2" :fence 5}
{:type :invoke :process 1 :f :acquire :value "u3"}{:type :ok :process 1 :f :acquire :value "u3" :fence 4}`,
			want: "process-1 was granted key lock with token 4 after token 5 had been granted"},
		"a lease for ever": {text: `
{:type :invoke :process 0 :f :acquire :time 1 :ttl-ms 10000000000000}{:type :ok :process 0 :f :acquire :time 2}{:type :invoke :process 1 :f :acquire :time 3}{:type :ok :process 1 :f :acquire :time 4}`,
			want: "process-1 was granted key lock, although process-0 held it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := imported(t, c.text, c.options)
			if got := story(judge(t, dir)); got != c.want {
				t.Errorf("it is judged %q, want %q", got, c.want)
			}
		})
	}
}

// twoAnd is two at once, and the first one's failure to give back.
func twoAnd(reason string) string {
	return `{:type :invoke :process 0 :f :acquire}{:type :ok :process 0 :f :acquire}{:type :invoke :process 1 :f :acquire}{:type :ok :process 1 :f :acquire}
{:type :invoke :process 0 :f :release}{:type :fail :process 0 :f :release :error ` + reason + `}`
}

// Numbers as large as there are go to Jepsen's form and come back.
func TestTokensAndTimesOfSixtyFourBitsComeBack(t *testing.T) {
	dir, made := imported(t, `
{:type :invoke :process 0 :f :acquire :time 9223372036854775806}{:type :ok :process 0 :f :acquire :value 9223372036854775807 :time 9223372036854775807}`, jepsen.ImportOptions{TTL: time.Second})
	text := exported(t, dir, jepsen.ExportOptions{})
	_, again := imported(t, text, jepsen.ImportOptions{})
	if made.Tokens != 1 || again.Tokens != 1 || !strings.Contains(text, ":fence 9223372036854775807") || !strings.Contains(text, ":time 9223372036854775807") {
		t.Errorf("%+v comes back as %+v: %s", made, again, text)
	}
}

// Whoever mistypes a key is told so, and nothing is written.
func TestAnExportOfALockThatIsNotThereWritesNothing(t *testing.T) {
	dir, _ := imported(t, `{:type :invoke :process 0 :f :open-session :session "s"}{:type :ok :process 0 :f :open-session}{:type :invoke :process 0 :f :acquire}{:type :fail :process 0 :f :acquire}`, jepsen.ImportOptions{})
	var out strings.Builder
	if _, err := jepsen.Export(dir, &out, jepsen.ExportOptions{Key: "typo"}); err == nil || err.Error() != `the history has no call on a lock "typo"` || out.Len() > 0 {
		t.Errorf("%v, and it wrote %q", err, out.String())
	}
	if text := exported(t, dir, jepsen.ExportOptions{Key: "lock"}); !strings.Contains(text, ":error :failed") {
		t.Errorf("a definite failure is exported as\n%s", text)
	}
}
