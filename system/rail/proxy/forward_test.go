package proxy_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"fenceproof/system/wire"
)

// whole is a complete answer.
func whole(status, kind, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, kind, len(body), body)
}

func resets(c net.Conn, _ transfer) bool {
	_ = c.(*net.TCPConn).SetLinger(0) // closing sends RST
	return false
}

const decline = `{"code":"DECLINED","message":"no","retrySafe":false,"traceId":"t"}`

func TestTheRailsAnswerIsDefiniteOnlyWhenItIsWholeAndWellFormed(t *testing.T) {
	noLeak(t)
	cases := []struct {
		name   string
		behave func(net.Conn, transfer) bool
		code   wire.Code // "" for 200
		record string
	}{
		{"an acknowledgement", acks, "", "ACKED"},
		{"a decline", says(whole("402 Payment Required", "application/json", decline)), wire.Rejected, "REJECTED"},
		{"a decline without its envelope", says(whole("402 Payment Required", "application/json", `{}`)), wire.RailAmbiguous, "TIMEOUT"},
		{"a decline that is no JSON", says(whole("402 Payment Required", "text/html", "pay me")), wire.RailAmbiguous, "TIMEOUT"},
		{"a redirect that keeps the method", says("HTTP/1.1 307 Temporary Redirect\r\nLocation: /submit\r\nContent-Length: 0\r\n\r\n"), wire.RailAmbiguous, "TIMEOUT"},
		{"a redirect", says("HTTP/1.1 302 Found\r\nLocation: /submit\r\nContent-Length: 0\r\n\r\n"), wire.RailAmbiguous, "TIMEOUT"},
		{"500 after the money moved", says(whole("500 Internal Server Error", "application/json", ack)), wire.RailAmbiguous, "TIMEOUT"},
		{"502", says(whole("502 Bad Gateway", "text/html", "bad")), wire.RailAmbiguous, "TIMEOUT"},
		{"503 with Retry-After", says("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"), wire.RailAmbiguous, "TIMEOUT"},
		{"408, which asks to send again", says("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), wire.RailAmbiguous, "TIMEOUT"},
		{"429", says("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"), wire.RailAmbiguous, "TIMEOUT"},
		{"400", says(whole("400 Bad Request", "application/json", `{"code":"INVALID_REQUEST"}`)), wire.RailAmbiguous, "TIMEOUT"},
		{"202", says(whole("202 Accepted", "application/json", ack)), wire.RailAmbiguous, "TIMEOUT"},
		{"a body cut short", says("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n" + ack), wire.RailAmbiguous, "TIMEOUT"},
		{"a chunked body cut short", says("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"rai\r\n"), wire.RailAmbiguous, "TIMEOUT"},
		{"half a JSON object", says(whole("200 OK", "application/json", ack[:20])), wire.RailAmbiguous, "TIMEOUT"},
		{"something after the JSON object", says(whole("200 OK", "application/json", ack+ack)), wire.RailAmbiguous, "TIMEOUT"},
		{"HTML with status 200", says(whole("200 OK", "text/html", "<p>ok</p>")), wire.RailAmbiguous, "TIMEOUT"},
		{"JSON that says it is HTML", says(whole("200 OK", "text/html", ack)), wire.RailAmbiguous, "TIMEOUT"},
		{"JSON without a content type", says("HTTP/1.1 200 OK\r\nContent-Length: " + fmt.Sprint(len(ack)) + "\r\n\r\n" + ack), wire.RailAmbiguous, "TIMEOUT"},
		{"no reference", says(whole("200 OK", "application/json", `{"acceptedAt":"2026-01-02T03:04:05Z"}`)), wire.RailAmbiguous, "TIMEOUT"},
		{"a reference of another type", says(whole("200 OK", "application/json", `{"railReference":7,"acceptedAt":"2026-01-02T03:04:05Z"}`)), wire.RailAmbiguous, "TIMEOUT"},
		{"a reference that no database stores", says(whole("200 OK", "application/json", `{"railReference":"a\u0000b","acceptedAt":"2026-01-02T03:04:05Z"}`)), wire.RailAmbiguous, "TIMEOUT"},
		{"no time of acceptance", says(whole("200 OK", "application/json", `{"railReference":"rail-7"}`)), wire.RailAmbiguous, "TIMEOUT"},
		{"a body without end", says("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + ack + strings.Repeat(" ", 100<<10)), wire.RailAmbiguous, "TIMEOUT"},
		{"something that is no HTTP", says("what?\r\n\r\n"), wire.RailAmbiguous, "TIMEOUT"},
		{"a connection closed without an answer", says(""), wire.RailAmbiguous, "TIMEOUT"},
		{"a connection reset", resets, wire.RailAmbiguous, "TIMEOUT"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRail(t, c.behave)
			s := newStage(t, r.url, setting{})
			a, err := s.submit(41)
			if c.code == "" {
				if err != nil {
					t.Fatalf("answered %v, want 200", err)
				}
				if a.Outcome != "ACKED" || a.RailReference != "rail-7" {
					t.Errorf("answered %+v", a)
				}
			} else {
				s.wantCode(err, c.code)
			}
			if n := r.count(); n != 1 {
				t.Errorf("forwarded %d times, want once", n)
			}
			got := s.attempts()
			if len(got) != 1 || got[0].Outcome != c.record || !got[0].Resolved || got[0].Token != 41 {
				t.Errorf("record %+v, want one %s under token 41", got, c.record)
			}
			if (got[0].Reference == "rail-7") != (c.record == "ACKED") {
				t.Errorf("record %+v: the reference belongs to an acknowledgement and to nothing else", got)
			}
		})
	}
}

func TestARequestOnAReusedConnectionIsNotSentAgainWhenItBreaks(t *testing.T) {
	noLeak(t)
	for _, end := range []struct {
		name  string
		close func(net.Conn, transfer) bool
	}{{"closed", says("")}, {"reset", resets}} {
		t.Run(end.name, func(t *testing.T) {
			first := true
			r := newRail(t, nil)
			r.behave = func(c net.Conn, in transfer) bool {
				if first {
					first = false
					return acks(c, in)
				}
				return end.close(c, in)
			}
			s := newStage(t, r.url, setting{})
			if _, err := s.submit(1); err != nil {
				t.Fatal(err)
			}
			s.payout = newPayout(s)
			_, err := s.submit(2)
			s.wantCode(err, wire.RailAmbiguous)
			if n := r.count(); n != 2 {
				t.Errorf("two submissions were forwarded %d times", n)
			}
		})
	}
}

func TestARailThatRefusesTheConnectionLeavesTheAttemptUnknown(t *testing.T) {
	noLeak(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, "http://"+l.Addr().String(), setting{})
	_ = l.Close()
	_, err = s.submit(5)
	e := s.wantCode(err, wire.RailAmbiguous)
	if e.RetrySafe {
		t.Error("an attempt on record is not safe to send again")
	}
	if got := s.attempts(); len(got) != 1 || got[0].Outcome != "TIMEOUT" || s.mark() != 5 {
		t.Errorf("record %+v, mark %d", got, s.mark())
	}
}
