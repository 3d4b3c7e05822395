package wiretap

import (
	"bufio"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// counting is a rig whose server counts the claims that it executes.
func counting(t *testing.T) (*Relay, *book, *atomic.Int64) {
	var n atomic.Int64
	relay, b, _ := rig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1) == 2 {
			w.WriteHeader(409)
			_, _ = io.WriteString(w, `{"code":"FENCED_OUT","details":{"highestToken":41}}`)
			return
		}
		_, _ = io.WriteString(w, `{"accountId":"a-1"}`)
	})
	return relay, b, &n
}

func apply(t *testing.T, r *Relay, rule Rule) *Applied {
	t.Helper()
	a, err := r.Apply(rule)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func claim(t *testing.T, relay *Relay) *bufio.Reader {
	t.Helper()
	c := dialTo(t, relay.Addr())
	send(t, c, post(claimPath, claimBody, "X-Fencing-Token: 41"))
	return bufio.NewReader(c)
}

func met(t *testing.T, a *Applied) {
	t.Helper()
	select {
	case <-a.Met():
	case <-time.After(patience):
		t.Fatal("the rule met nothing")
	}
}

func TestADroppedRequestNeverReachesTheServerAndIsNotAnswered(t *testing.T) {
	relay, b, n := counting(t)
	a := apply(t, relay, Rule{Side: Request, Op: contract.OpClaim, Action: Drop})
	c := dialTo(t, relay.Addr())
	send(t, c, post(claimPath, claimBody))
	met(t, a)
	if e := b.stage(t, history.Answered); e.Call != a.Event().Call || e.Type != contract.Info || e.Status != 0 {
		t.Errorf("recorded: %+v", e)
	}
	_ = c.CloseWrite() // the client gives up; until then the connection just stays silent
	if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
		t.Errorf("the client got %q, %v", got, err)
	}
	readResponse(t, claim(t, relay), "POST") // the rule is spent
	if n.Load() != 1 {
		t.Errorf("executed %d times", n.Load())
	}
}

func TestADroppedAnswerIsAnExecutedCallWhoseClientHearsNothing(t *testing.T) {
	relay, b, n := counting(t)
	a := apply(t, relay, Rule{Side: Answer, Action: Drop})
	c := dialTo(t, relay.Addr())
	send(t, c, post(claimPath, claimBody))
	met(t, a)
	if e := b.stage(t, history.Lost); e.Status != 200 || e.Type != contract.Info {
		t.Errorf("recorded: %+v", e)
	}
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || len(got) > 0 || n.Load() != 1 {
		t.Errorf("the client got %q, %v; executed %d times", got, err, n.Load())
	}
}

func TestAHeldRequestArrivesWhenItIsReleasedEvenIfItsClientHasGone(t *testing.T) {
	relay, b, n := counting(t)
	a := apply(t, relay, Rule{Side: Request, Op: contract.OpClaim, Nth: 2, Action: Hold})
	readResponse(t, claim(t, relay), "POST")
	late := dialTo(t, relay.Addr())
	send(t, late, post(claimPath, claimBody))
	met(t, a)
	_ = late.Close()
	readResponse(t, claim(t, relay), "POST") // overtakes it
	if n.Load() != 2 {
		t.Fatalf("%d were executed before the release", n.Load())
	}
	a.Release()
	a.Release()
	if e := b.stage(t, history.Lost); e.Call != a.Event().Call || e.Status != 200 || n.Load() != 3 {
		t.Errorf("recorded: %+v; executed %d", e, n.Load())
	}
}

func TestAHeldAnswerReachesItsClientAfterOneThatCameLater(t *testing.T) {
	relay, b, _ := counting(t)
	a := apply(t, relay, Rule{Side: Answer, Action: Hold})
	first := claim(t, relay)
	met(t, a)
	readResponse(t, claim(t, relay), "POST")
	a.Release()
	readResponse(t, first, "POST")
	if e := b.wait(t, "the late delivery", func(e history.Event) bool {
		return e.Stage == history.Delivered && e.Call == a.Event().Call
	}); e.Msg == "" {
		t.Error("the event does not say that a rule kept it back")
	}
}

func TestADelayedMessageArrivesAfterItsDelay(t *testing.T) {
	for _, side := range []Side{Request, Answer} {
		relay, b, n := counting(t)
		apply(t, relay, Rule{Side: side, Action: Delay, Delay: time.Millisecond})
		began := time.Now()
		readResponse(t, claim(t, relay), "POST")
		if time.Since(began) < time.Millisecond || n.Load() != 1 {
			t.Errorf("%s: executed %d times, too early", side, n.Load())
		}
		b.stage(t, history.Delivered)
	}
}

func TestADuplicateIsACallOfItsOwnThatNamesTheOneItRepeats(t *testing.T) {
	relay, b, n := counting(t)
	apply(t, relay, Rule{Side: Request, Op: contract.OpClaim, Action: Duplicate})
	readResponse(t, claim(t, relay), "POST")
	lost := b.stage(t, history.Lost)
	if n.Load() != 2 || lost.DupOf == 0 || lost.DupOf == lost.Call || lost.Highest != 41 || lost.Account != "" {
		t.Errorf("executed %d times; %+v", n.Load(), lost)
	}
	var original, dup []history.Event
	for _, e := range b.all() {
		if e.Call == lost.Call {
			dup = append(dup, e)
		} else {
			original = append(original, e)
		}
	}
	if s := stages(dup); s != "received/invoke forwarded/invoke answered/fail lost/info" {
		t.Errorf("the duplicate's story is %s", s)
	}
	if dup[0].Req != original[0].Req || dup[0].Token != 41 || dup[0].DupOf != original[0].Call {
		t.Errorf("received\n%+v, a duplicate of\n%+v", dup[0], original[0])
	}
}

func TestARuleThatIsTakenBackBeforeItsMessageComesMeetsNone(t *testing.T) {
	relay, b, n := counting(t)
	back := apply(t, relay, Rule{Side: Request, Op: contract.OpClaim, Action: Drop})
	held := apply(t, relay, Rule{Side: Request, Op: contract.OpClaim, Action: Hold})
	back.Release()
	claim(t, relay)
	met(t, held) // the rule that was taken back does not stand in the way of the next one
	held.Release()
	b.stage(t, history.Delivered)
	select {
	case <-back.Met():
		t.Error("it met a message")
	default:
	}
	if n.Load() != 1 {
		t.Errorf("executed %d times", n.Load())
	}
}

func TestOfRulesThatShareAClaimOneMeetsAMessage(t *testing.T) {
	one, _, first := counting(t)
	two, _, second := counting(t)
	var claimed atomic.Bool
	sole := func() bool { return claimed.CompareAndSwap(false, true) }
	met1 := apply(t, one, Rule{Side: Request, Op: contract.OpClaim, Action: Drop, Claim: sole})
	met2 := apply(t, two, Rule{Side: Request, Op: contract.OpClaim, Action: Drop, Claim: sole})
	claim(t, one)
	met(t, met1)
	readResponse(t, claim(t, two), "POST")
	select {
	case <-met2.Met():
		t.Error("the second met one as well")
	default:
	}
	if first.Load() != 0 || second.Load() != 1 || two.rules.count.Load() != 0 {
		t.Errorf("executed %d and %d times; %d rules still wait", first.Load(), second.Load(), two.rules.count.Load())
	}
}

func TestARuleForOnePayoutLetsTheOthersPass(t *testing.T) {
	relay, _, n := counting(t)
	a := apply(t, relay, Rule{Side: Request, Payout: "another", Action: Hold})
	readResponse(t, claim(t, relay), "POST")
	c := dialTo(t, relay.Addr())
	send(t, c, post("/v1/payouts/another/claim", claimBody))
	met(t, a)
	if e := a.Event(); e.Payout != "another" || n.Load() != 1 {
		t.Errorf("it met %+v, and %d were executed", e, n.Load())
	}
	a.Release()
	readResponse(t, bufio.NewReader(c), "POST")
}

func TestCloseEndsWhatRulesHold(t *testing.T) {
	relay, b, n := counting(t)
	hold := apply(t, relay, Rule{Side: Request, Op: contract.OpClaim, Action: Hold})
	drop := apply(t, relay, Rule{Side: Request, Op: contract.OpPost, Action: Drop})
	twice := apply(t, relay, Rule{Side: Request, Op: contract.OpRenew, Action: Duplicate, Delay: time.Hour})
	claim(t, relay)
	c := dialTo(t, relay.Addr())
	send(t, c, post("/v1/payouts/p-1/post", "{}"))
	renew := dialTo(t, relay.Addr())
	send(t, renew, post("/v1/locks/k/renew", "{}"))
	readResponse(t, bufio.NewReader(renew), "POST")
	for _, a := range []*Applied{hold, drop, twice} {
		met(t, a)
	}
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	if n.Load() != 1 {
		t.Errorf("executed %d times:\n%s", n.Load(), list(b.all()))
	}
}

func TestRulesThatMakeNoSenseAreRefused(t *testing.T) {
	relay, _, _ := counting(t)
	for _, rule := range []Rule{
		{},
		{Side: Request},
		{Side: "middle", Action: Drop},
		{Side: Request, Action: "explode"},
		{Side: Request, Action: Drop, Nth: -1},
		{Side: Answer, Action: Delay},
		{Side: Answer, Op: contract.OpClaim, Action: Duplicate},
		{Side: Request, Action: Duplicate},
		{Side: Request, Op: contract.OpTransfer, Action: Duplicate},
	} {
		if _, err := relay.Apply(rule); err == nil {
			t.Errorf("%+v was applied", rule)
		}
	}
}
