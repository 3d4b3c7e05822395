package local

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// echo is a server that answers every line with the same line, and remembers the lines. To a flood it answers 1000 lines.
type echo struct {
	mu    sync.Mutex
	lines []string
	left  int // connections that have ended
}

func serveEcho(t *testing.T) (*echo, *Link) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	e := &echo{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { e.serve(c) })
		}
	})
	link, err := newLink("client", "server", l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		l.Close()
		work.Wait()
		if err := goleak.Find(before); err != nil { // the proxy's streams included, and whoever drains one
			t.Error(err)
		}
	})
	return e, link
}

func (e *echo) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.left++
			return
		}
		e.mu.Lock()
		e.lines = append(e.lines, strings.TrimSpace(line))
		e.mu.Unlock()
		if strings.HasPrefix(line, "flood") {
			for range 100 {
				if _, err := io.WriteString(c, strings.Repeat("flood\n", 1000)); err != nil {
					return
				}
			}
		}
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
	}
}

func (e *echo) heard(line string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.lines {
		if l == line {
			return true
		}
	}
	return false
}

// caller is one connection over a link.
type caller struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func call(t *testing.T, l *Link) caller {
	t.Helper()
	c, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return caller{c, t, bufio.NewReader(c)}
}

func (c caller) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hears waits for a line, for as long as it takes.
func (c caller) hears(line string) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, err := c.in.ReadString('\n'); err != nil || got != line+"\n" {
		c.t.Fatalf("heard %q, %v, want %q", got, err, line)
	}
}

// hearsNothing waits for a while: silence cannot be recognised otherwise.
func (c caller) hearsNothing() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if b, err := c.in.Peek(1); !errors.Is(err, syscall.EAGAIN) && !isTimeout(err) {
		c.t.Fatalf("heard %q, %v", b, err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// ends waits until the connection ends, and says how.
func (c caller) ends() error {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := c.in.ReadByte()
	if err == nil || isTimeout(err) {
		c.t.Fatalf("the connection does not end: %v", err)
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsHeldIsDeliveredWhenTheLinkHeals(t *testing.T) {
	for _, d := range []Direction{ToServer, ToClient, Both} {
		e, l := serveEcho(t)
		before := call(t, l)
		before.say("a")
		before.hears("a")
		must(t, l.Hold(t.Context(), d))
		during := call(t, l)
		before.say("b")
		during.say("c")
		during.say("d")
		before.hearsNothing()
		during.hearsNothing()
		if got := e.heard("b"); got != (d == ToClient) {
			t.Errorf("direction %d: what was said has arrived: %v", d, got)
		}
		must(t, l.Heal(t.Context()))
		before.hears("b")
		during.hears("c")
		during.hears("d")
		after := call(t, l)
		after.say("e")
		after.hears("e")
		before.say("f")
		before.hears("f")
	}
}

func TestWhatIsHeldArrivesEvenWhenItsSenderHasGone(t *testing.T) {
	e, l := serveEcho(t)
	open := call(t, l)
	open.say("a")
	open.hears("a")
	must(t, l.Hold(t.Context(), ToServer))
	fresh := call(t, l)
	for _, c := range []caller{open, fresh} {
		c.say("late " + c.LocalAddr().String())
		must(t, c.Close())
	}
	if e.heard("late " + open.LocalAddr().String()) {
		t.Fatal("it was not held")
	}
	must(t, l.Heal(t.Context()))
	for _, c := range []caller{open, fresh} {
		await(t, "the late line", func() bool { return e.heard("late " + c.LocalAddr().String()) })
	}
}

// A receiver that has gone takes nothing any more: whoever waits for that would wait for ever.
func TestALinkHealsWhenWhoeverWaitedForWhatItHoldsHasGone(t *testing.T) {
	for name, fault := range map[string]func(*Link) error{
		"hold": func(l *Link) error { return l.Hold(t.Context(), ToClient) },
		"slow": func(l *Link) error { return l.Slow(t.Context(), ToClient, Slowness{Latency: time.Hour}) },
	} {
		_, l := serveEcho(t)
		must(t, fault(l))
		var gone []caller
		for range 4 {
			c := call(t, l)
			c.say("flood")
			gone = append(gone, c)
		}
		gone[0].hearsNothing()
		for _, c := range gone {
			must(t, c.Close())
		}
		begun := time.Now()
		must(t, l.Heal(t.Context()))
		t.Logf("%s: healed after %s", name, time.Since(begun))
		c := call(t, l)
		c.say("a")
		c.hears("a")
	}
}

func TestACutLosesWhatIsSentAndHealingEndsTheConnectionsThatMissIt(t *testing.T) {
	for _, d := range []Direction{ToServer, ToClient, Both} {
		e, l := serveEcho(t)
		before := call(t, l)
		before.say("a")
		before.hears("a")
		must(t, l.Cut(t.Context(), d))
		during := call(t, l)
		before.say("b")
		during.say("c")
		before.hearsNothing()
		during.hearsNothing()
		must(t, l.Heal(t.Context()))
		before.ends()
		during.ends()
		if got := e.heard("b"); got != (d == ToClient) {
			t.Errorf("direction %d: what was said has arrived: %v", d, got)
		}
		after := call(t, l)
		after.say("d")
		after.hears("d")
	}
}

func TestACutTellsNobodyThatTheOtherSideHasGone(t *testing.T) {
	e, l := serveEcho(t)
	left := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.left
	}
	before := call(t, l)
	before.say("a")
	before.hears("a")
	must(t, l.Cut(t.Context(), ToServer))
	must(t, before.Close())
	other := call(t, l)
	other.say("b")
	other.hearsNothing()
	if left() != 0 {
		t.Error("the server was told that its client has gone")
	}
	must(t, l.Heal(t.Context()))
	await(t, "the server to be told", func() bool { return left() == 2 })
}

func TestAResetEndsOpenConnectionsAndResetsNewOnes(t *testing.T) {
	for _, d := range []Direction{ToServer, ToClient} {
		e, l := serveEcho(t)
		before := call(t, l)
		before.say("a")
		before.hears("a")
		must(t, l.Reset(t.Context(), d))
		before.say("b")
		before.ends() // the proxy can no more than end a connection that was open
		during := call(t, l)
		during.say("c")
		if err := during.ends(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("direction %d: a new connection ended with %v", d, err)
		}
		if d == ToClient {
			await(t, "what was said to arrive", func() bool { return e.heard("b") && e.heard("c") })
		} else if e.heard("b") || e.heard("c") {
			t.Error("what was reset has arrived")
		}
		must(t, l.Heal(t.Context()))
		after := call(t, l)
		after.say("d")
		after.hears("d")
	}
}

func TestASlowLinkTakesItsTimeAndKeepsTheOrder(t *testing.T) {
	_, l := serveEcho(t)
	open := call(t, l)
	open.say("a")
	open.hears("a")
	must(t, l.Slow(t.Context(), ToServer, Slowness{Latency: 60 * time.Millisecond, Jitter: 50 * time.Millisecond, Seed: 7}))
	begun := time.Now()
	for _, line := range []string{"b", "c", "d", "e", "f"} {
		open.say(line)
	}
	for _, line := range []string{"b", "c", "d", "e", "f"} {
		open.hears(line)
	}
	if took := time.Since(begun); took < 10*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	must(t, l.Heal(t.Context()))
	open.say("g")
	open.hears("g")
	must(t, l.Slow(t.Context(), ToServer, Slowness{KBPerSecond: 10}))
	begun = time.Now()
	many := strings.Repeat("n", 1000) // a tenth of a second
	open.say(many)
	open.hears(many)
	if took := time.Since(begun); took < 100*time.Millisecond {
		t.Errorf("1000 bytes took %s at 10 KB/s", took)
	}
	must(t, l.Heal(t.Context()))
	must(t, l.Slow(t.Context(), Both, Slowness{Latency: time.Hour}))
	open.say("h")
	open.hearsNothing()
	must(t, l.Heal(t.Context()))
	open.hears("h")
}

func TestOneSeedMakesOneSequenceOfDelays(t *testing.T) {
	delays := func(seed uint64) (all []time.Duration) {
		l := &late{Latency: 100, Jitter: 50, Seed: seed}
		for range 50 {
			d := l.delay()
			if d < 50*time.Millisecond || d > 150*time.Millisecond {
				t.Errorf("a delay of %s", d)
			}
			all = append(all, d)
		}
		return all
	}
	a, again, b := delays(7), delays(7), delays(8)
	same := true
	for i := range a {
		if a[i] != again[i] {
			t.Fatal("one seed makes two sequences")
		}
		same = same && a[i] == b[i]
	}
	if same {
		t.Error("two seeds make one sequence")
	}
}
