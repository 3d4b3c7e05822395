package local

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"fenceproof/deploy/process"
)

// The test's own binary acts as a client when this is its first argument.
const asClient = "act-as-client"

// actAsClient says where its server is; then it fails, or waits until it is asked to end.
func actAsClient(name, server string) {
	fmt.Println(name, "calls", server)
	if name == "grumbler" {
		os.Exit(3)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
}

func client(t *testing.T, name string) Client {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Client{Name: name, Program: self, Server: LockServer, Args: func(server string) []string { return []string{asClient, name, server} }}
}

func TestLocksAloneBootWithoutPaymentsAndServeClientsThatCanBeStopped(t *testing.T) {
	c := config(t)
	c.Executors, c.LocksOnly = 0, true
	var hops interposed
	c.Interpose = hops.interpose
	s := boot(t, c)
	if _, err := s.Process(PayDB); err == nil {
		t.Error("paydb was started")
	}
	if _, err := s.AppURL(PayDB); err == nil || !strings.Contains(err.Error(), "there are lockdb") {
		t.Errorf("an address of paydb: %v", err)
	}
	if err := s.StartClient(t.Context(), client(t, "idler")); err != nil {
		t.Fatal(err)
	}
	if hops.String() != "idler→lock-server" {
		t.Errorf("interposed on %s", hops.String())
	}
	l, err := s.Link(LinkName("idler", LockServer))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the client's first words", func() bool {
		text, err := os.ReadFile(s.LogPath("idler"))
		return err == nil && string(text) == "idler calls "+l.Address()+"\n"
	})
	p, err := s.Process("idler")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ended := s.Ended(); len(ended) > 0 {
		t.Errorf("a stopped client counts as ended: %v", ended)
	}
	if err := p.Kill(t.Context()); err != nil || len(s.Ended()) > 0 {
		t.Errorf("%v; one that was killed counts as ended: %v", err, s.Ended())
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the client's first words again", func() bool {
		text, err := os.ReadFile(s.LogPath("idler"))
		return err == nil && strings.Count(string(text), "idler calls ") == 2
	})
	unready := Client{Name: "unready", Program: "/bin/sleep", Server: LockServer, Args: func(string) []string { return []string{"600"} }}
	if err := s.StartClient(t.Context(), unready); err != nil { // it does not listen for the end, as one that has just begun
		t.Fatal(err)
	}
	if err := s.StopClients(t.Context()); err != nil {
		t.Error(err)
	}
	if ended := s.Ended(); len(ended) != 2 || !process.Gone(p.Pid()) {
		t.Errorf("ended: %v", ended)
	}
	if p, err := s.Process(LockServer); err != nil || !p.Running() {
		t.Errorf("lock-server went with the clients: %v", err)
	}
}

func TestAClientThatDoesNotEndInOrderIsAnErrorWithItsLog(t *testing.T) {
	c := config(t)
	c.Executors, c.LocksOnly = 0, true
	s := boot(t, c)
	if err := s.StartClient(t.Context(), client(t, "grumbler")); err != nil {
		t.Fatal(err)
	}
	if err := s.AwaitClient(t.Context(), "grumbler"); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "grumbler calls") {
		t.Errorf("waiting for it: %v", err)
	}
	if err := s.StopClients(t.Context()); err == nil || !strings.Contains(err.Error(), "grumbler has ended: exit status 3") {
		t.Errorf("stopping it: %v", err)
	}
	if err := s.StartClient(t.Context(), client(t, "idler")); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.AwaitClient(short, "idler"); err == nil || !strings.Contains(err.Error(), "wait for idler to end") {
		t.Errorf("waiting for one that does not end: %v", err)
	}
}

func TestAClientThatCannotBeMeantIsRefused(t *testing.T) {
	c := config(t)
	c.Executors, c.LocksOnly = 0, true
	s := boot(t, c)
	for want, change := range map[string]func(*Client){
		"serves nobody":        func(c *Client) { c.Server = LockDB },
		"there is one already": func(c *Client) { c.Name = LockServer },
	} {
		x := client(t, "x")
		change(&x)
		if err := s.StartClient(t.Context(), x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	c = config(t)
	if c.LocksOnly = true; c.check() == nil {
		t.Error("executors without payments were taken")
	}
}
