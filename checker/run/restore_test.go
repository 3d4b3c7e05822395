package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"fenceproof/nemesis"
)

// Whoever keeps a step of the procedure from its end for a moment, an election or a paydb that has no room, does not keep the
// system from coming back; whoever does so for ever is told of.
func TestAStepOfTheGuardThatIsRefusedIsCarriedOutAgain(t *testing.T) {
	refused := errors.New("read the highest token in paydb: the database system is starting up")
	for name, c := range map[string]struct {
		refusals int
		err      error
	}{
		"at once": {0, nil}, "the second time": {1, nil}, "after seconds": {20, nil}, "never": {1 << 20, refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				done, err := insist(t.Context(), func(context.Context) (guardedTo, error) {
					if asked++; asked <= c.refusals {
						return guardedTo{}, refused
					}
					return guardedTo{Backend: "etcd"}, nil
				})
				if !errors.Is(err, c.err) || (err == nil) != (done.Backend == "etcd") {
					t.Errorf("asked %d times: %+v, %v", asked, done, err)
				}
			})
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	asked := 0
	if _, err := insist(ended, func(context.Context) (guardedTo, error) { asked++; return guardedTo{}, refused }); !errors.Is(err, refused) || asked != 1 {
		t.Errorf("after its time it was asked for %d times: %v", asked, err)
	}
}

// The run is judged by what restore-guard says that it did: what it did not say it has not done.
func TestWhatTheGuardDidIsWhatItSays(t *testing.T) {
	const moved = `{"backend":"pg","highestSeen":7,"stoodAt":40,"nextToken":1000040,"endedSessions":3}`
	for name, c := range map[string]struct {
		printed []string // by one step after the other
		from    int64
		next    int64
		err     string
	}{
		"it moved the store":                       {[]string{moved + "\n"}, 40, 1000040, ""},
		"it has something for people to read":      {[]string{"lockctl: {odd} words\n{\n  \"backend\": \"pg\",\n  \"stoodAt\": 40,\n  \"nextToken\": 41\n}\n"}, 40, 41, ""},
		"it logs as well":                          {[]string{`{"level":"WARN","msg":"slow"}` + "\n" + moved + "\n"}, 40, 1000040, ""},
		"it moved all members alike":               {[]string{moved, moved}, 40, 1000040, ""},
		"it moved one member further than another": {[]string{moved, `{"backend":"etcd","stoodAt":40,"nextToken":50}`}, 0, 0, "from 40 to 1000040, and another from 40 to 50"},
		"it left the store where it was":           {[]string{`{"backend":"pg","stoodAt":40,"nextToken":40}`}, 0, 0, "it stood at 40, and the next token is 40"},
		"it does not say how far":                  {[]string{`{"backend":"pg","stoodAt":40,"endedSessions":3}`}, 0, 0, "the next token is nothing"},
		"it says nothing":                          {[]string{"done\n"}, 0, 0, "says 0 times"},
		"it says something else":                   {[]string{"{}\n"}, 0, 0, "says 0 times"},
		"it says it twice":                         {[]string{moved + "\n" + moved + "\n"}, 0, 0, "says 2 times"},
		"it breaks off":                            {[]string{`{"backend":"pg","stoodAt":4`}, 0, 0, "read what restore-guard did"},
	} {
		t.Run(name, func(t *testing.T) {
			var m moves
			err := func() error {
				for _, text := range c.printed {
					g, err := readGuarded(text)
					if err != nil {
						return err
					}
					if err := m.add(g); err != nil {
						return err
					}
				}
				return nil
			}()
			if c.err == "" && (err != nil || m != moves{c.from, c.next}) {
				t.Errorf("moved %+v: %v", m, err)
			}
			if c.err != "" && (!errors.As(err, new(nemesis.RunbookError)) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, want %s, and that it is the guard's", err, c.err)
			}
		})
	}
}
