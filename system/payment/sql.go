package payment

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// The statements, one to a file, named as C1 names them. An unfenced one stands in where fencing is off.
var (
	sqlLockAccount       = statement("lock_account")
	sqlReadPayout        = statement("read_payout")
	sqlReadResponse      = statement("read_response")
	sqlStoreResponse     = statement("store_response")
	sqlReadInFlight      = statement("read_in_flight")
	sqlRaiseFence        = statement("raise_fence")
	sqlRaiseFenceOff     = statement("raise_fence_unfenced")
	sqlClaimPayout       = statement("claim_payout")
	sqlMovePayout        = statement("move_payout")
	sqlResolvePayout     = statement("resolve_payout")
	sqlStoreResolution   = statement("store_resolution")
	sqlDebit             = statement("c1_1_6_a_account")
	sqlDebitOff          = statement("c1_1_6_a_account_unfenced")
	sqlDiagnose          = statement("c1_1_6_a_diagnose")
	sqlLedgerLeg         = statement("c1_1_6_b_ledger")
	sqlLedgerLegOff      = statement("c1_1_6_b_ledger_unfenced")
	sqlPostPayout        = statement("c1_1_6_c_payout")
	sqlPostPayoutOff     = statement("c1_1_6_c_payout_unfenced")
	sqlOpenClearing      = statement("open_clearing_account")
	sqlCreditClearing    = statement("credit_clearing_account")
	sqlReadEntries       = statement("read_entries")
	sqlListPayouts       = statement("list_payouts")
	sqlListOpenPayouts   = statement("list_open_payouts")
	sqlGetPayout         = statement("get_payout")
	sqlGetSubmissions    = statement("get_submissions")
	sqlGetResolution     = statement("get_resolution")
	sqlGetAccount        = statement("get_account")
	sqlBacklogAgeSeconds = statement("backlog_age")
)

// statement reads one embedded statement. A missing file is a mistake in the build, so it ends the start.
func statement(name string) string {
	b, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("statement %s is not embedded: %v", name, err))
	}
	return strings.TrimSpace(string(b))
}

// either is the statement that is in force: fenced, or with fencing off the other one.
func either(fencing bool, fenced, unfenced string) string {
	if fencing {
		return fenced
	}
	return unfenced
}
