package wiretap

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"fenceproof/checker/history"
)

// noise is n bytes of every value, the same ones every time.
func noise(n int) string {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	_, _ = r.Read(b)
	return string(b)
}

// The bytes of requests and answers are those of the other end, whatever their framing.
func TestRequestsAndAnswersPassBitForBit(t *testing.T) {
	big := noise(3 << 20)
	for _, c := range []struct{ name, request, answer string }{
		{"a body of every byte", post("/v1/a", noise(4096)), "HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n" + noise(4096)},
		{"no body at all", "GET /v1/payouts/1 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"},
		{"odd but legal header lines", "POST /x HTTP/1.1\r\nhOsT:x\r\nX-Odd:\t v a l  \r\nX-Odd: again\r\nX-Empty:\r\ncontent-LENGTH:  2\r\n\r\n{}",
			"HTTP/1.1 200 Fine, thank you\r\nx-odd: \xff\xfe\r\nX-Odd:2\r\ncOnTeNt-LeNgTh: 1\r\n\r\n!"},
		{"a name twice the length of the buffer", "GET / HTTP/1.1\r\nX-Long: " + strings.Repeat("y", 9000) + "\r\n\r\n",
			"HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("z", 9000) + "\r\nContent-Length: 0\r\n\r\n"},
		{"chunks with extensions and trailers", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n1;x\r\n!\r\n000\r\n\r\n"},
		{"an answer without reason", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 304 \r\nContent-Length: 77\r\nETag: \"x\"\r\n\r\n"},
		{"HEAD with the length of what it leaves out", "HEAD / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"},
		{"an interim answer before the answer", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"an answer that ends with its connection", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + noise(70000)},
		{"lines that end with bare line feeds", "GET / HTTP/1.1\nHost: x\n\n", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"},
		{"a big body both ways", post("/v1/a", big), fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(big), big)},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nold"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := make(chan string, 1)
			addr := rawServer(t, func(s net.Conn) {
				b := make([]byte, len(c.request))
				n, _ := io.ReadFull(s, b)
				got <- string(b[:n])
				_, _ = io.WriteString(s, c.answer)
			})
			b := newBook()
			client := dialTo(t, relayTo(t, addr, b).Addr())
			send(t, client, c.request)
			answer := make([]byte, len(c.answer))
			n, err := io.ReadFull(client, answer)
			if err != nil || string(answer) != c.answer {
				t.Errorf("the client got %d of %d bytes (%v), equal: %v", n, len(c.answer), err, string(answer[:n]) == c.answer[:n])
			}
			if r := <-got; r != c.request {
				t.Errorf("the server got %d of %d bytes, or other ones: %.300q", len(r), len(c.request), r)
			}
			b.stage(t, history.Delivered)
			if s := stages(b.all()); s != "received/invoke forwarded/invoke answered/"+string(b.all()[2].Type)+" delivered/"+string(b.all()[2].Type) {
				t.Errorf("the story is %s", s)
			}
		})
	}
}

func TestAnExpectedContinueIsAnsweredHereAndNotPassedOn(t *testing.T) {
	heads := make(chan string, 1)
	addr := rawServer(t, func(s net.Conn) {
		in := bufio.NewReader(s)
		var head strings.Builder
		for {
			line, err := in.ReadString('\n')
			if head.WriteString(line); err != nil || line == "\r\n" {
				break
			}
		}
		body := make([]byte, 4)
		_, _ = io.ReadFull(in, body)
		heads <- head.String() + string(body)
		_, _ = io.WriteString(s, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
	})
	client := dialTo(t, relayTo(t, addr, newBook()).Addr())
	send(t, client, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 4\r\nX-A: b\r\n\r\n")
	in := bufio.NewReader(client)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("instead of a 100 came %q, %v", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	send(t, client, "body")
	if got, want := <-heads, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nX-A: b\r\n\r\nbody"; got != want {
		t.Errorf("the server got\n%q, want\n%q", got, want)
	}
	if res, _ := readResponse(t, in, "POST"); res.StatusCode != 201 {
		t.Errorf("status %d", res.StatusCode)
	}
}

// FuzzRequest: no input makes the parser panic or swallow a byte.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(post(claimPath, `{"expectedState":"PENDING"}`, "X-Fencing-Token: 41")))
	f.Add([]byte("\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\n0\r\nT: 1\r\n\r\nrest"))
	f.Add([]byte("GET http://h/v1/locks/a%2Fb HTTP/1.0\nExpect: 100-continue\nContent-Length: 1\n\nx"))
	r := &Relay{}
	f.Fuzz(func(t *testing.T, text []byte) {
		in := bufio.NewReaderSize(bytes.NewReader(text), 16)
		var m message
		if err := m.readRequest(in, func() error { return nil }); err != nil {
			return
		}
		rest, _ := io.ReadAll(in)
		used := text[:len(text)-len(rest)]
		if !m.expects && !bytes.HasSuffix(used, m.raw) {
			t.Fatalf("of %q was passed on %q", used, m.raw)
		}
		if blank := bytes.TrimSuffix(used, m.raw); !m.expects && len(bytes.Trim(blank, "\r\n")) > 0 {
			t.Fatalf("%q was swallowed", blank)
		}
		r.newCall(&m)
	})
}
