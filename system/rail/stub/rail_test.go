package stub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fenceproof/system/wire"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct {
	*testing.T
	path    string
	journal *Journal
	client  *wire.Client
	address string
}

func newBench(t *testing.T, path string, o Options) *bench {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "journal")
	}
	j := openJournal(t, path)
	server := httptest.NewServer(New(o, j, slog.New(slog.DiscardHandler)).Handler())
	client := wire.NewClient(server.URL, 8)
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{t, path, j, client, server.Listener.Addr().String()}
}

func openJournal(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (b *bench) submit(ref string) (accepted, error) {
	var a accepted
	err := b.client.Do(context.Background(), wire.Call{Method: http.MethodPost, Path: "/submit",
		Body: submission{ClientRef: ref, AmountMinor: 2500, Currency: "EUR"}}, &a)
	return a, err
}

func (b *bench) lookUp(ref string) []Transfer {
	b.Helper()
	var f found
	if err := b.client.Do(context.Background(), wire.Call{Method: http.MethodGet, Path: "/transfers?clientRef=" + ref}, &f); err != nil {
		b.Fatal(err)
	}
	return f.Transfers
}

// lines reads the journal file as a witness would: whole lines that parse.
func lines(t *testing.T, path string) (all []Transfer) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var v Transfer
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &v) == nil {
			all = append(all, v)
		}
	}
	return all
}

func TestTheRailIsNotIdempotent(t *testing.T) {
	b := newBench(t, "", Options{})
	first, err := b.submit("p-1")
	second, err2 := b.submit("p-1")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	got := lines(t, b.path)
	if len(got) != 2 || got[0].RailReference != first.RailReference || got[1].RailReference != second.RailReference || first.RailReference == second.RailReference {
		t.Fatalf("journal %+v after %+v and %+v: want both", got, first, second)
	}
	if got[0].ClientRef != "p-1" || got[0].AmountMinor != 2500 || got[0].Currency != "EUR" || !got[0].AcceptedAt.Equal(first.AcceptedAt) {
		t.Errorf("journal %+v", got[0])
	}
	if seen := b.lookUp("p-1"); len(seen) != 2 || seen[0] != got[0] {
		t.Errorf("look-up %+v, journal %+v", seen, got)
	}
	if seen := b.lookUp("p-2"); len(seen) != 0 {
		t.Errorf("look-up of nothing shows %+v", seen)
	}
}

func TestALostReplyMovesTheMoneyAndADeclineDoesNot(t *testing.T) {
	lost := newBench(t, "", Options{DuplicateAckRate: 1})
	_, err := lost.submit("p-1")
	if err == nil || wire.CodeOf(err) != "" {
		t.Errorf("answered %v, want a closed connection", err)
	}
	if got := lines(t, lost.path); len(got) != 1 {
		t.Errorf("journal %+v, want the transfer", got)
	}
	declined := newBench(t, "", Options{FailureRate: 1, DuplicateAckRate: 1})
	_, err = declined.submit("p-1")
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != Declined || e.Status != http.StatusPaymentRequired || e.RetrySafe {
		t.Errorf("answered %#v, want 402 DECLINED", err)
	}
	if got := lines(t, declined.path); len(got) != 0 {
		t.Errorf("journal %+v, want nothing", got)
	}
}

func TestTheSeedDecidesEveryCallsFateWhateverTheOrder(t *testing.T) {
	fates := func(seed uint64, order []int) (f [64]string) {
		r := New(Options{FailureRate: 0.3, DuplicateAckRate: 0.3, Seed: seed}, nil, nil)
		for _, i := range order {
			decline, lose := r.mood(fmt.Sprint("p-", i%32)) // every reference twice
			f[i] = fmt.Sprint(decline, lose)
		}
		return f
	}
	up, mixed := make([]int, 64), make([]int, 64)
	for i := range up {
		up[i] = i
		mixed[i] = 32*(i%2) + i/2 // first and second calls stay in order
	}
	if fates(7, up) != fates(7, mixed) {
		t.Error("the same calls in another order meet another fate")
	}
	if fates(7, up) == fates(8, up) {
		t.Error("another seed decides the same")
	}
}

func TestTheRatesAreShares(t *testing.T) {
	r := New(Options{FailureRate: 0.25, DuplicateAckRate: 0.5, Seed: 1}, nil, nil)
	const n = 4000
	declined, lost := 0, 0
	for i := range n {
		d, l := r.mood(fmt.Sprint(i))
		if d {
			declined++
		}
		if l {
			lost++
		}
	}
	if declined < n/5 || declined > n*3/10 || lost < n*45/100 || lost > n*55/100 {
		t.Errorf("of %d calls %d declined and %d lost, want about a quarter and a half", n, declined, lost)
	}
}

func TestALookUpShowsATransferOnlyAfterTheLag(t *testing.T) {
	b := newBench(t, "", Options{LookupLag: time.Hour})
	if _, err := b.submit("p-1"); err != nil {
		t.Fatal(err)
	}
	if seen := b.lookUp("p-1"); len(seen) != 0 {
		t.Errorf("look-up shows %+v an hour too early", seen)
	}
	if seen := b.journal.Find("p-1", 0); len(seen) != 1 {
		t.Errorf("without a lag it shows %+v", seen)
	}
}

func TestTransfersAtOnceAllReachTheFileBeforeTheirAnswers(t *testing.T) {
	b := newBench(t, "", Options{})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			a, err := b.submit(fmt.Sprint("p-", i))
			if err != nil {
				t.Error(err)
				return
			}
			text, err := os.ReadFile(b.path)
			if err != nil || !strings.Contains(string(text), a.RailReference) {
				t.Errorf("answered %s before it was in the file (%v)", a.RailReference, err)
			}
		})
	}
	wg.Wait()
	if got := lines(t, b.path); len(got) != 40 {
		t.Errorf("%d transfers in the journal, want 40", len(got))
	}
}

func TestACallerThatGoesAwayDoesNotCallTheMoneyBack(t *testing.T) {
	b := newBench(t, "", Options{Latency: 50 * time.Millisecond})
	c, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"clientRef":"p-1","amountMinor":1,"currency":"EUR"}`
	_, err = fmt.Fprintf(c, "POST /submit HTTP/1.1\r\nHost: rail\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); len(lines(t, b.path)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the money never moved")
		}
	}
}

func TestACallThatTheRailDoesNotUnderstandMovesNothing(t *testing.T) {
	b := newBench(t, "", Options{})
	good := map[string]any{"clientRef": "p-1", "amountMinor": 1, "currency": "EUR"}
	with := func(field string, v any) map[string]any {
		m := maps.Clone(good)
		m[field] = v
		return m
	}
	for _, c := range []struct {
		name string
		call wire.Call
		want wire.Code
	}{
		{"no reference", wire.Call{Method: "POST", Path: "/submit", Body: with("clientRef", "")}, wire.InvalidRequest},
		{"a long reference", wire.Call{Method: "POST", Path: "/submit", Body: with("clientRef", strings.Repeat("x", maxRef+1))}, wire.InvalidRequest},
		{"amount 0", wire.Call{Method: "POST", Path: "/submit", Body: with("amountMinor", 0)}, wire.InvalidRequest},
		{"amount as text", wire.Call{Method: "POST", Path: "/submit", Body: with("amountMinor", "1")}, wire.InvalidRequest},
		{"amount 0.5", wire.Call{Method: "POST", Path: "/submit", Body: with("amountMinor", 0.5)}, wire.InvalidRequest},
		{"small letters", wire.Call{Method: "POST", Path: "/submit", Body: with("currency", "eur")}, wire.InvalidRequest},
		{"unknown field", wire.Call{Method: "POST", Path: "/submit", Body: with("token", 41)}, wire.InvalidRequest},
		{"no object", wire.Call{Method: "POST", Path: "/submit", Body: []int{1}}, wire.InvalidRequest},
		{"wrong method", wire.Call{Method: "PUT", Path: "/submit", Body: good}, wire.MethodNotAllowed},
		{"wrong path", wire.Call{Method: "POST", Path: "/submits", Body: good}, wire.NotFound},
		{"look-up without a reference", wire.Call{Method: "GET", Path: "/transfers"}, wire.InvalidRequest},
	} {
		if err := b.client.Do(context.Background(), c.call, nil); wire.CodeOf(err) != c.want {
			t.Errorf("%s: answered %v, want %s", c.name, err, c.want)
		}
	}
	if got := lines(t, b.path); len(got) != 0 {
		t.Errorf("journal %+v", got)
	}
}
