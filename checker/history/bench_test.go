package history

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/contract"
)

// typical is event n of a payout history: about 400 bytes each, a third of them committed rows.
func typical(n int) Event {
	payout := fmt.Sprintf("0b8f5d0e-6c1e-4a53-9d5c-%012d", n/40)
	account := fmt.Sprintf("5f0c9a3e-1d2b-4c7f-8e6a-%012d", n%12)
	e := Event{W: Wiretap, Type: contract.Invoke, Proc: contract.Executor(n%6 + 1), Op: contract.OpClaim, Stage: Received,
		Call: int64(n / 4), Link: "executor-2→payment-resource", Payout: payout, Account: account, Owner: "executor-2", Token: int64(n)}
	switch n % 12 {
	case 0, 3:
		e.Req = `{"expectedState":"PENDING"}`
	case 1, 4, 7:
		e.Stage, e.Type, e.Status = Answered, contract.OK, 200
		e.Res = fmt.Sprintf(`{"payoutId":"%s","accountId":"%s","state":"CLAIMED","claimToken":%d,"accountFence":%d,"attemptCount":1}`, payout, account, n, n-1)
	case 2, 5, 8, 11:
		row := map[string]string{"payout_id": payout, "account_id": account, "state": "CLAIMED", "claim_token": fmt.Sprint(n), "claimed_by": "executor-2", "amount_minor": "12500", "currency": "EUR", "attempt_count": "1"}
		e = Event{W: PayDB, Type: contract.Info, Proc: contract.PayDB, Op: OpCommit, LSN: "0/1A2B3C4", XID: uint32(n + 700),
			Changes: []Change{{Table: "payout", Kind: Update, New: row}}}
	}
	return e
}

func BenchmarkEncode(b *testing.B) {
	var line []byte
	var size int64
	es := make([]Event, 1200)
	for i := range es {
		es[i] = typical(i)
		size += int64(len(AppendEvent(nil, &es[i])))
	}
	b.SetBytes(size / int64(len(es)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		line = AppendEvent(line[:0], &es[i%len(es)])
	}
}

func BenchmarkDecode(b *testing.B) {
	lines := make([][]byte, 12000)
	var size int64
	for i := range lines {
		e := typical(i)
		e.I = int64(i + 1)
		lines[i] = AppendEvent(nil, &e)
		size += int64(len(lines[i]))
	}
	var d Decoder
	var e Event
	b.SetBytes(size / int64(len(lines)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := d.Decode(lines[i%len(lines)], &e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	const n = 100_000
	dir := b.TempDir()
	bufs, ws := map[Witness]*bytes.Buffer{}, map[Witness]*Writer{}
	for _, w := range Witnesses() {
		bufs[w] = &bytes.Buffer{}
		ws[w], _ = NewWriter(bufs[w], w, Header{RunID: "bench", Started: time.Unix(0, 0)})
	}
	for i := range n {
		e := typical(i)
		e.I, e.T = int64(i+1), int64(i)*1000
		if err := ws[e.W].Write(&e); err != nil {
			b.Fatal(err)
		}
	}
	size := 0
	for w, out := range ws {
		if out.Complete() != nil || out.Flush() != nil {
			b.Fatal("write")
		}
		size += bufs[w].Len()
		if err := os.WriteFile(filepath.Join(dir, string(w)+".ndjson"), bufs[w].Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		r, err := Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		var e Event
		for err = r.Next(&e); err == nil; err = r.Next(&e) {
		}
		if err != io.EOF || len(r.Gaps()) > 0 {
			b.Fatal(err, r.Gaps())
		}
		_ = r.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}

func BenchmarkRecord(b *testing.B) {
	rec, err := Create(filepath.Join(b.TempDir(), "h"), Header{RunID: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	e := typical(1)
	e.Req = strings.Repeat("x", 200)
	b.ReportAllocs()
	for b.Loop() {
		rec.Record(Wiretap, e)
	}
	if err := rec.Close(); err != nil {
		b.Fatal(err)
	}
}
