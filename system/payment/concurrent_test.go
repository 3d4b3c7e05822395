package payment_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// sendAll sends the requests at once and returns their answers in the same order.
func (b *bench) sendAll(rs ...request) []answer {
	b.Helper()
	out, errs := make([]answer, len(rs)), make([]error, len(rs))
	var wg sync.WaitGroup
	for i, r := range rs {
		wg.Go(func() {
			out[i], errs[i] = exchange(b.url, "POST", "/v1/payouts/"+r.payout+"/"+r.verb, headers(r), r.body)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return out
}

func headers(r request) http.Header {
	return http.Header{"X-Owner-Id": {or(r.owner, "executor-1")}, "X-Fencing-Token": {strconv.FormatInt(r.token, 10)}, "X-Idempotency-Key": {"payout-" + r.payout}}
}

func TestTwoTokensPostOnePayoutAtOnceAndItIsPostedOnce(t *testing.T) {
	b := newBench(t)
	var fenced, found int
	for range 40 {
		acct := b.account(1000, 0)
		p := b.payout(acct, 250, "RAIL_ACKED", 41)
		a := b.sendAll(post(p, 41), post(p, 43), post(p, 41), post(p, 43))
		b.want(a[1], 200, "")
		b.want(a[3], 200, "")
		for _, older := range []answer{a[0], a[2]} {
			if older.code == "FENCED_OUT" {
				fenced++
			} else {
				b.want(older, 200, "")
				found++
			}
		}
		if got := b.accountLine(acct); got != "750 fence 41 entries -250" && got != "750 fence 43 entries -250" {
			t.Errorf("the account holds %s", got)
		}
		if got := b.row(`SELECT count(*)::text FROM ledger_entry WHERE payout_id = $1`, p); got != "2" {
			t.Errorf("the payout has %s legs", got)
		}
	}
	t.Logf("the older token was fenced out %d times and first %d times", fenced, found)
}

func TestTwoExecutorsClaimOnePayoutAtOnceAndOneOfThemHoldsIt(t *testing.T) {
	b := newBench(t)
	for range 40 {
		acct := b.account(1000, 0)
		p := b.payout(acct, 250, "PENDING", 0)
		a := b.sendAll(claim(p, 41, "PENDING"), claim(p, 43, "PENDING"))
		won := map[bool]int{true: 43, false: 41}[a[1].status == 200]
		if (a[0].status == 200) == (a[1].status == 200) {
			t.Fatalf("answered %s and %s", a[0].raw, a[1].raw)
		}
		if got := b.row(`SELECT claim_token::text FROM payout WHERE payout_id = $1`, p); got != fmt.Sprint(won) {
			t.Errorf("the claim is %s, want %d", got, won)
		}
	}
}

// Whoever waits for the account's row judges by what the row's last holder has left, not by what there was when it came.
func TestARequestThatWaitedForTheAccountSeesWhatItsHolderCommitted(t *testing.T) {
	for _, verb := range []string{"submitted", "post", "claim"} {
		t.Run(verb, func(t *testing.T) {
			b := newBench(t)
			acct := b.account(1000, 0)
			state := map[string]string{"submitted": "CLAIMED", "post": "RAIL_ACKED", "claim": "CLAIMED"}[verb]
			held := map[string]int64{"submitted": 42, "post": 42, "claim": 41}[verb]
			p := b.payout(acct, 250, state, held)
			ctx := context.Background()
			tx, err := db.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(ctx) }()
			if _, err := tx.Exec(ctx, `UPDATE account SET fence = 50 WHERE account_id = $1`, acct); err != nil {
				t.Fatal(err)
			}
			r := map[string]request{"submitted": submitted(p, 42), "post": post(p, 42), "claim": claim(p, 42, "CLAIMED")}[verb]
			answers := make(chan answer, 1)
			go func() { answers <- b.sendAll(r)[0] }()
			b.untilBlockedBy(tx)
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			b.want(<-answers, 409, "FENCED_OUT")
		})
	}
}

// untilBlockedBy waits until a backend waits for tx.
func (b *bench) untilBlockedBy(tx pgx.Tx) {
	b.Helper()
	pid := tx.Conn().PgConn().PID()
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if b.row(`SELECT count(*)::text FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, int32(pid)) != "0" {
			return
		}
	}
	b.Fatal("nobody waits for the account's row")
}

// watch makes paydb write down, in commit order per account, every fence that went down and every token that had an
// effect. The account's row lock is held until the commit, so the sequence is in commit order.
const watch = `
CREATE TABLE seen (n BIGSERIAL PRIMARY KEY, account_id UUID, token BIGINT, fell BOOLEAN);
CREATE FUNCTION see_fence() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.fence < OLD.fence THEN INSERT INTO seen (account_id, token, fell) VALUES (NEW.account_id, NEW.fence, true); END IF; RETURN NULL; END $$;
CREATE TRIGGER see_fence AFTER UPDATE ON account FOR EACH ROW EXECUTE FUNCTION see_fence();
CREATE FUNCTION see_token() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen (account_id, token, fell) SELECT account_id, NEW.token, false FROM payout WHERE payout_id = NEW.payout_id; RETURN NULL; END $$;
CREATE TRIGGER see_token AFTER INSERT ON payout_response FOR EACH ROW EXECUTE FUNCTION see_token();`

// schedule is one seeded storm: several workers, each with tokens that may be long out of date, ask for anything.
type schedule struct {
	*bench
	mu      sync.Mutex
	tokens  map[string]int64 // the lock service's last token, per account
	payouts map[string][]string
	accts   []string
}

func TestBooksAndFencesSurviveRandomSchedules(t *testing.T) {
	url := newDatabase("schedules")
	pool, err := pgxPool(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := newBenchOn(t, url, true)
	b.db = pool
	b.exec(watch)
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { newSchedule(b.in(t)).run(seed) })
	}
}

func newSchedule(b *bench) *schedule {
	s := &schedule{bench: b, tokens: map[string]int64{}, payouts: map[string][]string{}}
	for range 3 {
		acct := b.account(600, 0)
		s.accts = append(s.accts, acct)
		for range 8 {
			s.payouts[acct] = append(s.payouts[acct], b.payout(acct, 150, "PENDING", 0))
		}
	}
	return s
}

func (s *schedule) run(seed uint64) {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for w := range errs {
		wg.Go(func() { errs[w] = s.work(rand.New(rand.NewPCG(seed, uint64(w)))) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			s.Fatal(err)
		}
	}
	s.check()
}

// grant is a new token of the account, or, as with a holder that was stopped, the one that this worker has.
func (s *schedule) grant(r *rand.Rand, acct string, mine map[string]int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine[acct] == 0 || r.IntN(12) == 0 {
		s.tokens[acct] += 1 + r.Int64N(3)
		mine[acct] = s.tokens[acct]
	}
	return mine[acct]
}

func (s *schedule) work(r *rand.Rand) error {
	mine := map[string]int64{}
	for range 120 {
		acct := s.accts[r.IntN(len(s.accts))]
		p := s.payouts[acct][r.IntN(len(s.payouts[acct]))]
		token := s.grant(r, acct, mine)
		steps := []request{claim(p, token, allStates[r.IntN(4)]), submitted(p, token), outcome(p, token, acked), post(p, token)}
		if r.IntN(3) > 0 { // most of the time a worker does what an executor does
			steps[0] = claim(p, token, "PENDING")
		} else {
			v := verbs[r.IntN(len(verbs))]
			steps = []request{{payout: p, verb: v.verb, body: v.body, token: token}}
		}
		for _, step := range steps {
			a, err := exchange(s.url, "POST", "/v1/payouts/"+p+"/"+step.verb, headers(step), step.body)
			if err != nil {
				return err
			}
			if a.status >= 500 || a.status == 400 || a.status == 404 {
				return fmt.Errorf("%s %s under %d answered %s", step.verb, step.body, step.token, a.raw)
			}
		}
	}
	return nil
}

func (s *schedule) check() {
	zero := func(what, sql string) {
		s.Helper()
		if n := s.row(sql); n != "0" {
			s.Errorf("%s: %s", what, n)
		}
	}
	for _, acct := range s.accts {
		got := s.row(`SELECT (600 + (SELECT coalesce(sum(CASE direction WHEN 'CREDIT' THEN amount_minor ELSE -amount_minor END), 0) FROM ledger_entry e WHERE e.account_id = a.account_id) = balance_minor)::text FROM account a WHERE account_id = $1`, acct)
		if got != "true" {
			s.Errorf("account %s is not its opening balance plus its entries", acct)
		}
	}
	zero("clearing accounts that are not the sum of their entries", `SELECT count(*)::text FROM account a WHERE
		balance_minor <> (SELECT sum(amount_minor) FROM ledger_entry e WHERE e.account_id = a.account_id AND direction = 'CREDIT')`)
	zero("payouts whose legs do not fit their state", `SELECT count(*)::text FROM payout p WHERE
		(SELECT concat_ws(' ', count(*), coalesce(sum(CASE direction WHEN 'CREDIT' THEN amount_minor ELSE -amount_minor END), 0)) FROM ledger_entry e WHERE e.payout_id = p.payout_id)
		<> CASE state WHEN 'POSTED' THEN '2 0' ELSE '0 0' END`)
	zero("fences that went down", `SELECT count(*)::text FROM seen WHERE fell`)
	zero("effects under a token older than the one before", `SELECT count(*)::text FROM (SELECT token < lag(token) OVER (PARTITION BY account_id ORDER BY n) AS back FROM seen WHERE NOT fell) s WHERE back`)
	if n := s.row(`SELECT count(*)::text FROM payout WHERE state = 'POSTED'`); n == "0" {
		s.Error("no payout was posted: the schedule shows nothing")
	}
}
