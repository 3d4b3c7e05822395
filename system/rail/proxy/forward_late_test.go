package proxy

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestAProcessThatWasStoppedWhileItDialledDoesNotForwardAfterItsTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		n, _ := c.Read(make([]byte, 1024))
		sent <- n
	}()
	r := newRail("http://" + l.Addr().String())
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	deadline, _ := ctx.Deadline()
	transport := r.http.Transport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(_ context.Context, network, address string) (net.Conn, error) {
		time.Sleep(time.Until(deadline) + time.Millisecond) // as a stopped process: nothing looks at the clock meanwhile
		return dial(context.Background(), network, address)
	}
	// A context without its own timer leaves the last check alone, as it is right after the process goes on.
	result, _, err := r.forward(noTimer{context.Background(), deadline}, transfer{ClientRef: "p-1"})
	if result != timeout || err == nil {
		t.Errorf("%s, %v", result, err)
	}
	r.close()
	if n := <-sent; n != 0 {
		t.Errorf("%d bytes were forwarded after the deadline", n)
	}
}

// noTimer has a deadline and does not end at it.
type noTimer struct {
	context.Context
	deadline time.Time
}

func (c noTimer) Deadline() (time.Time, bool) { return c.deadline, true }
