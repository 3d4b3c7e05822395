package lockctl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"fenceproof/deploy/postgres"
	"fenceproof/system/lock"

	"github.com/jackc/pgx/v5"
)

// backUp copies lockdb as it is. lock-server is down meanwhile, because PostgreSQL copies no database that is in use.
func (s *system) backUp() {
	s.Helper()
	s.stopLock()
	s.copyDatabase(s.lockdb, s.lockdb+"_backup", "lockapp")
	s.startLockServer()
}

// restore puts a copy of the backup in lockdb's place, with lock-server down.
func (s *system) restore() {
	s.Helper()
	s.stopLock()
	s.exec(server.SuperURL("postgres"), fmt.Sprintf(`DROP DATABASE %q`, s.lockdb))
	s.copyDatabase(s.lockdb+"_backup", s.lockdb, "lockapp")
}

// work has an owner take the account's lock and claim its payout, which a fence then remembers.
func (s *system) work(account, payout, owner, state string) (token int64) {
	s.Helper()
	token = s.hold("payout:"+account, owner)
	if code := s.claim(payout, owner, token, state); code != "" {
		s.Fatalf("claim under token %d: %s", token, code)
	}
	s.check(s.store.Release(s.Context(), "payout:"+account, token))
	return token
}

func (s *system) sequence() int64 {
	s.Helper()
	n, err := strconv.ParseInt(s.value(server.URL("lockapp", s.lockdb), "SELECT last_value::text FROM fencing_token_seq"), 10, 64)
	s.check(err)
	return n
}

// The same story twice. Unguarded, the restored database hands out tokens that the account has seen, and whoever works
// with one is shut out as if it were late. Guarded, the next grant is above everything, and nobody has kept a grant.
func TestARestoredLockDBHandsOutNoTokenTwiceOnceItIsGuarded(t *testing.T) {
	s := newSystem(t)
	account, payouts := s.account(0, "PENDING")
	key := "payout:" + account
	s.hold("kept in the backup", "executor-1")
	s.backUp()
	s.work(account, payouts[0], "executor-1", "PENDING")
	highest := s.work(account, payouts[0], "executor-2", "CLAIMED")

	s.restore()
	s.startLockServer()
	again := s.hold(key, "executor-3")
	if code := s.claim(payouts[0], "executor-3", again, "CLAIMED"); again > highest || code == "" {
		t.Errorf("unguarded: after token %d, token %d was granted and answered %q", highest, again, code)
	}

	s.restore()
	r := s.want(s.ctl(deed("restore-guard")...), 0, fmt.Sprintf("PAYDB HAS SEEN  token %d (payout.claim_token)\n", highest), "ENDED SESSIONS  1\n",
		fmt.Sprintf("NEXT TOKEN      %d or above", highest+1<<32+1))
	s.startLockServer()
	if s.held("kept in the backup").Held {
		t.Errorf("a grant outlived the guard:\n%s", r.out)
	}
	token := s.hold(key, "executor-3")
	if code := s.claim(payouts[0], "executor-3", token, "CLAIMED"); token != highest+1<<32+1 || code != "" {
		t.Errorf("guarded: after token %d, token %d was granted and answered %q", highest, token, code)
	}
	if got, want := s.value(server.URL("lockapp", s.lockdb), "SELECT concat_ws(' ', moved_to, highest_seen, ended_sessions, operator, reason) FROM lock_restore"),
		fmt.Sprintf("%d %d 1 olga it hangs since noon", highest+1<<32, highest); got != want {
		t.Errorf("kept: %s, want %s", got, want)
	}
}

// Every table of paydb that holds a token counts, and so do lockdb's own rows.
func TestTheGuardLooksAtEveryTokenThatWasEverUsed(t *testing.T) {
	s := newSystem(t)
	account, _ := s.account(0, "PENDING")
	high := int64(1 << 53)
	for place, sql := range map[string]string{
		"account.fence":                   `UPDATE account SET fence = $2 WHERE account_id = $1`,
		"rail_high_water.highest_token":   `INSERT INTO rail_high_water (account_id, highest_token) VALUES ($1, $2)`,
		"payout.claim_token":              `UPDATE payout SET state = 'CLAIMED', claimed_by = 'x', claim_token = $2 WHERE account_id = $1`,
		"rail_submission.presented_token": `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) SELECT gen_random_uuid(), payout_id, 'k', $2 FROM payout WHERE account_id = $1`,
		"payout_resolution.token":         `INSERT INTO payout_resolution (payout_id, outcome, evidence, token) SELECT payout_id, 'ABSENT', 'none', $2 FROM payout WHERE account_id = $1`,
		"payout_response.token":           `INSERT INTO payout_response (payout_id, operation, token, request, status, body) SELECT payout_id, 'claim', $2, '', 200, '' FROM payout WHERE account_id = $1`,
		"ledger_entry.fence":              `INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) SELECT gen_random_uuid(), payout_id, account_id, 'DEBIT', 1, $2 FROM payout WHERE account_id = $1`,
	} {
		high++
		s.pay(sql, account, high)
		s.exec(server.URL("lockapp", s.lockdb), "SELECT setval('fencing_token_seq', 1)")
		s.want(s.ctl(deed("restore-guard")...), 0, fmt.Sprintf("token %d (%s)", high, place))
		if got := s.sequence(); got != high+1<<32 {
			t.Errorf("for %s the sequence was moved to %d, want %d", place, got, high+1<<32)
		}
	}
	s.exec(server.URL("lockapp", s.lockdb), `INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, token_floor) VALUES ('k', 'a', 1, 'o', 'r', $1)`, int64(1)<<60)
	s.want(s.ctl(deed("restore-guard")...), 0)
	if got := s.sequence(); got != 1<<60+1<<32 {
		t.Errorf("after a floor of 2^60 the sequence stands at %d", got)
	}
}

func TestTheGuardMovesNothingDownAndNothingToTheEndOfAllTokens(t *testing.T) {
	s := newSystem(t)
	account, _ := s.account(0)
	s.hold("k", "executor-1")
	s.pay(`UPDATE account SET fence = 1000 WHERE account_id = $1`, account)
	s.exec(server.URL("lockapp", s.lockdb), "SELECT setval('fencing_token_seq', 5000)")
	refused := func(says string, args ...string) {
		t.Helper()
		before := s.sequence()
		s.want(s.ctl(deed(append([]string{"restore-guard"}, args...)...)...), 1, says)
		if got := s.sequence(); got != before || !s.held("k").Held {
			t.Errorf("%v: the sequence went from %d to %d, k is %+v", args, before, got, s.held("k"))
		}
	}
	refused("a floor of 999 is below token 1000 (account.fence), which has been used", "--floor", "999")
	refused("a floor of 4999 is below token 5000, which lockdb has handed out already", "--floor", "4999")
	refused("leaves fewer than 4294967296 tokens", "--floor", fmt.Sprint(int64(math.MaxInt64)))
	for _, fence := range []int64{math.MaxInt64, math.MaxInt64 - 1<<32 + 1, math.MaxInt64 - 1<<33 + 1} {
		s.pay(`UPDATE account SET fence = $2 WHERE account_id = $1`, account, fence)
		refused("2^63-1")
	}
	// The last place that leaves enough.
	s.pay(`UPDATE account SET fence = $2 WHERE account_id = $1`, account, int64(math.MaxInt64-1<<33))
	s.want(s.ctl(deed("restore-guard")...), 0, fmt.Sprintf("NEXT TOKEN      %d or above", int64(math.MaxInt64-1<<32+1)))
	// And a floor where the margin would not fit.
	s.pay(`UPDATE account SET fence = $2 WHERE account_id = $1`, account, int64(math.MaxInt64-1<<32))
	s.want(s.ctl(deed("restore-guard", "--floor", fmt.Sprint(int64(math.MaxInt64-1<<32)))...), 0)
}

// Paydb has seen nothing since the last guard, but lockdb has gone on after the backup: nobody knows how far.
func TestAGuardMovesALockDBPastWhatItWentOnToGrantAfterTheBackup(t *testing.T) {
	s := newSystem(t)
	account, _ := s.account(0)
	s.pay(`UPDATE account SET fence = 33 WHERE account_id = $1`, account)
	s.want(s.ctl(deed("restore-guard")...), 0, "NEXT TOKEN      4294967330 or above")
	s.backUp()
	unused := s.hold("granted after the backup", "executor-1")
	s.restore()
	s.want(s.ctl(deed("restore-guard")...), 0, "PAYDB HAS SEEN  token 33 (account.fence)", "STOOD AT        4294967329\n", fmt.Sprintf("NEXT TOKEN      %d or above", int64(33)+2<<32+1))
	s.startLockServer()
	if token := s.hold("granted after the backup", "executor-2"); token <= unused {
		t.Errorf("token %d was granted, and now %d", unused, token)
	}
}

func TestAGuardThatIsRepeatedMovesOnByAnotherMarginAndStaysAtItsFloor(t *testing.T) {
	s := newSystem(t)
	s.hold("k", "executor-1")
	s.want(s.ctl(deed("restore-guard")...), 0, "PAYDB HAS SEEN  no token at all", "ENDED SESSIONS  1")
	at := s.sequence()
	if s.want(s.ctl(deed("restore-guard", "--floor", fmt.Sprint(at), "--json")...), 0, `"endedSessions": 0`); s.sequence() != at {
		t.Errorf("with its own floor the sequence went from %d to %d", at, s.sequence())
	}
	if s.want(s.ctl(deed("restore-guard")...), 0); s.sequence() != at+1<<32 {
		t.Errorf("the sequence went from %d to %d", at, s.sequence())
	}
	// A sequence without room for another margin is left alone; a floor may still be given.
	s.exec(server.URL("lockapp", s.lockdb), "SELECT setval('fencing_token_seq', $1::bigint)", int64(math.MaxInt64-1<<32))
	s.want(s.ctl(deed("restore-guard")...), 1, "token 9223372032559808511 (fencing_token_seq)")
	s.want(s.ctl(deed("restore-guard", "--floor", "9223372032559808511")...), 0, "NEXT TOKEN      9223372032559808512 or above")
}

func TestAGuardWithoutItsDatabasesOrTheirSchemaChangesNothing(t *testing.T) {
	s := newSystem(t)
	s.want(s.ctl(deed("restore-guard", "--paydb", server.URL("payapp", "nowhere"))...), 1, "read the tokens of paydb")
	s.want(s.ctl(deed("restore-guard", "--lockdb", "postgres://lockapp@127.0.0.1:1/lockdb")...), 1, "read the tokens of lockdb")
	s.exec(server.URL("lockapp", s.lockdb), "DROP TABLE lock_restore")
	s.want(s.ctl(deed("restore-guard")...), 1, "run lock-server migrate")
	if got := s.sequence(); got != 1 {
		t.Errorf("the sequence stands at %d", got)
	}
}

func TestAGuardWhoseReadingTakesTooLongSaysHowToGiveItMore(t *testing.T) {
	s := newSystem(t)
	c, err := pgx.Connect(t.Context(), server.URL("payapp", s.paydb))
	s.check(err)
	defer c.Close(context.Background())
	tx, err := c.Begin(t.Context())
	s.check(err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE ledger_entry IN ACCESS EXCLUSIVE MODE")
	s.check(err)
	s.want(s.ctl(deed("restore-guard", "--statement-timeout", "20ms")...), 1, "read the tokens of paydb: a statement took longer than 20ms, give it more by --statement-timeout")
	for _, wrong := range []string{"0s", "-1s", "25h"} {
		s.want(s.ctl(deed("restore-guard", "--statement-timeout", wrong)...), 2, "must be from 1ms to 24h0m0s")
	}
	s.check(tx.Rollback(t.Context()))
	s.want(s.ctl(deed("restore-guard", "--statement-timeout", "24h")...), 0)
}

// The commit is carried out and its answer gets lost on the way. The word is the whole message: settings are named so too.
func TestAGuardWhoseCommitGotNoAnswerIsUnknownAndMayBeRepeated(t *testing.T) {
	s := newSystem(t)
	s.hold("k", "executor-1")
	relay := cutOffAt(t, server.Address(), "Q\x00\x00\x00\x0bcommit")
	s.want(s.ctl(deed("restore-guard", "--lockdb", postgres.URL(relay, "lockapp", s.lockdb))...), 3,
		"it is not known whether lockdb was moved and its sessions were ended. The same command again shows where it stands")
	s.eventually("the commit is carried out", func() bool { return s.sequence() > 1<<32 })
	at := s.sequence()
	if s.want(s.ctl(deed("restore-guard")...), 0, "ENDED SESSIONS  0"); s.sequence() < at {
		t.Errorf("the sequence went down from %d to %d", at, s.sequence())
	}
}

// cutOffAt relays to upstream until a message with word was passed on: then whoever sent it hears nothing any more.
func cutOffAt(t *testing.T, upstream, word string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	work.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", upstream)
			if err != nil {
				t.Error(err)
				return
			}
			work.Go(func() { _, _ = io.Copy(from, to); _ = from.Close() })
			work.Go(func() { passOn(to, from, word) })
		}
	})
	return l.Addr().String()
}

// passOn passes messages on up to the one with word, of which it lets nobody hear the answer.
func passOn(to, from net.Conn, word string) {
	defer to.Close()
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		last := bytes.Contains(b[:n], []byte(word))
		if last {
			_ = from.Close()
		}
		if _, failed := to.Write(b[:n]); err != nil || failed != nil || last {
			return
		}
	}
}

// Whoever is in the middle of something has tables locked: the guard waits for him before it reads where the sequence
// stands, and holds nothing that he may need until he is done.
func TestTheGuardWaitsForWhoeverIsInTheMiddleOfSomethingAndOnlyThenLooks(t *testing.T) {
	s := newSystem(t)
	url := server.URL("lockapp", s.lockdb)
	session := s.session("executor-1")
	first := s.acquire("k", "executor-1", session)
	c, err := pgx.Connect(t.Context(), url)
	s.check(err)
	defer c.Close(context.Background())
	tx, err := c.Begin(t.Context())
	s.check(err)
	_, err = tx.Exec(t.Context(), "UPDATE lock_session SET expires_at = expires_at + interval '1 s' WHERE session_id = $1", session)
	s.check(err)
	ended := make(chan said, 1)
	go func() { ended <- s.ctl(deed("restore-guard", "--floor", fmt.Sprint(first+1))...) }()
	s.eventually("the guard waits", func() bool {
		return s.value(server.SuperURL("postgres"), "SELECT count(*)::text FROM pg_stat_activity WHERE application_name = 'lockctl' AND wait_event_type = 'Lock'") == "1"
	})
	s.exec(url, "SELECT nextval('fencing_token_seq') FROM generate_series(1, 10)")
	_, err = tx.Exec(t.Context(), "DELETE FROM lock_session WHERE session_id = $1", session)
	s.check(err)
	s.check(tx.Commit(t.Context()))
	s.want(<-ended, 1, fmt.Sprintf("a floor of %d is below token %d, which lockdb has handed out already", first+1, first+10))
	if got := s.sequence(); got != first+10 {
		t.Errorf("the sequence stands at %d", got)
	}
}

// With lock-server at work, and grants and revokes under way, the guard waits for nobody who waits for it. All sessions of
// before are dead, and no token that is granted after it is below the floor.
func TestTheGuardEndsEverybodysSessionWhileTheLockIsInUse(t *testing.T) {
	s := newSystem(t)
	const workers = 8
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var mu sync.Mutex
	last := map[string]int64{} // per key
	died := 0
	var all sync.WaitGroup
	ready := make(chan struct{}, workers)
	for n := range workers {
		owner, key := fmt.Sprint("executor-", n), fmt.Sprint("k", n%3)
		session := s.session(owner)
		all.Go(func() {
			for turns := 0; ctx.Err() == nil; turns++ {
				if turns == 3 {
					ready <- struct{}{}
				}
				a, err := s.store.TryAcquire(ctx, key, owner, session, time.Minute)
				if err == nil {
					mu.Lock()
					last[key] = max(last[key], a.FencingToken)
					mu.Unlock()
					if turns%2 == 0 {
						_, err = s.store.Revoke(ctx, key, "olga", "under load", a.FencingToken)
					} else {
						err = s.store.Release(ctx, key, a.FencingToken)
					}
				}
				if dead(err) {
					mu.Lock()
					died++
					mu.Unlock()
					return
				}
			}
		})
	}
	for range workers {
		<-ready
	}
	r := s.want(s.ctl(deed("restore-guard")...), 0, fmt.Sprintf("ENDED SESSIONS  %d\n", workers))
	all.Wait()
	if died != workers {
		t.Errorf("%d of %d sessions died:\n%s", died, workers, r.out)
	}
	for key, token := range last {
		if next := s.hold(key, "executor-9"); token >= 1<<32 || next <= 1<<32 {
			t.Errorf("%s: token %d before the guard and %d after it", key, token, next)
		}
	}
}

func dead(err error) bool {
	return errors.Is(err, lock.ErrSessionUnknown) || errors.Is(err, lock.ErrSessionExpired)
}
