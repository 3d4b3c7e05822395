package wiretap

import (
	"bufio"
	"net/http"
	"testing"
)

func TestARequestForNothingIsAnsweredHereAndNobodyHearsOfIt(t *testing.T) {
	r, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			t.Error("it reached the server")
		}
	})
	c := dialTo(t, r.Addr())
	in := bufio.NewReader(c)
	for range 2 { // the connection goes on
		send(t, c, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
		if res, _ := readResponse(t, in, http.MethodOptions); res.StatusCode != 200 || res.ContentLength != 0 {
			t.Errorf("answered %v", res)
		}
	}
	if all := b.all(); len(all) > 0 {
		t.Errorf("recorded was:\n%s", list(all))
	}
	send(t, c, post(claimPath, "{}"))
	if res, _ := readResponse(t, in, http.MethodPost); res.StatusCode != 200 {
		t.Errorf("a request after it is answered %d", res.StatusCode)
	}
	send(t, c, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	readResponse(t, in, http.MethodOptions)
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection goes on")
	}
}
