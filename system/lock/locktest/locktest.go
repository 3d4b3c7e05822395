// Package locktest is the lock contract as tests, for every backend the same: docs/contract.md, "The lock". Whoever
// writes a lock.Store runs it on the real thing.
package locktest

import (
	"flag"
	"testing"
	"time"

	"fenceproof/system/lock"
)

// Backend is a backend that the suite works on. Stores opened on it stand for the lock-servers that share it.
type Backend interface {
	// Address is where the backend listens, host:port.
	Address() string
	// Open opens one more Store, which reaches the backend at address; it is closed when t ends.
	Open(t testing.TB, address string) lock.Store
	// Grants lists the tokens under which key was granted, by the backend's own log and in its order. A renewal is none.
	Grants(t testing.TB, key string) []int64
	// Keys lists the locks that are stored, whether their grants live or not.
	Keys(t testing.TB) []string
	// Audit reads the record of a revocation.
	Audit(t testing.TB, id string) Audit
}

// Lone is a Backend that one test has to itself.
type Lone interface {
	Backend
	// Stall has acquires of key hang in the backend until resume is called.
	Stall(t testing.TB, key string) (resume func())
}

// Server is a Lone backend with a server of its own, which may be stopped.
type Server interface {
	Lone
	// Pause stops the server without ending it, Resume lets it go on.
	Pause(t testing.TB)
	Resume(t testing.TB)
	// Crash kills the server, Start starts it again on its data.
	Crash(t testing.TB)
	Start(t testing.TB)
}

// Audit is what is kept of a revocation.
type Audit struct {
	Key, OwnerID, Operator, Reason string
	RevokedToken                   int64
}

// Backends say where the suite finds its backends. The part of the suite for which there is none is not run.
type Backends struct {
	Shared func(t testing.TB) Backend // for tests that keep to keys and sessions of their own; they run side by side
	Own    func(t testing.TB) Lone    // empty, for one test
	Server func(t testing.TB) Server  // empty, for one test that stops it
}

// The leases of the suite: short is the shortest that the contract allows and runs out, long does not.
const (
	short = time.Second
	long  = time.Minute
)

// sideBySide is how many tests of the contract run at once: they wait for leases to run out and compute little.
const sideBySide = "8"

// Main runs a package that runs the contract, by run, such as (*testing.M).Run.
func Main(m *testing.M, run func(*testing.M) int) int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", sideBySide); err != nil {
			panic(err) // testing has had the flag since Go 1
		}
	}
	return run(m)
}

// Run runs the contract.
func Run(t *testing.T, b Backends) {
	if b.Shared != nil {
		sideways(t, "Shared", func(t *testing.T) {
			shared := b.Shared(t)
			for _, r := range shareable {
				sideways(t, r.name, func(t *testing.T) { r.test(newWorld(t, shared)) })
			}
		})
	}
	if b.Own != nil {
		sideways(t, "Own", func(t *testing.T) {
			for _, r := range lonely {
				sideways(t, r.name, func(t *testing.T) {
					own := b.Own(t)
					r.test(newWorld(t, own), own)
				})
			}
		})
	}
	if b.Server != nil {
		sideways(t, "Outage", func(t *testing.T) {
			for _, r := range stopped {
				sideways(t, r.name, func(t *testing.T) {
					s := b.Server(t)
					r.test(newWorld(t, s), s)
				})
			}
		})
	}
}

// sideways runs a part beside the others.
func sideways(t *testing.T, name string, part func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		part(t)
	})
}

// shareable are the rules that are told on keys of their own.
var shareable = []struct {
	name string
	test func(*world)
}{
	{"AFreeKeyIsGrantedWithATokenAndALease", aFreeKeyIsGranted},
	{"AHeldKeyIsContendedAndTheHolderIsNamed", aHeldKeyIsContended},
	{"TheSameSessionReEntersWithAHigherToken", theSameSessionReEnters},
	{"ReleaseAndAcquireAgainRaisesTheToken", releaseAndAcquireAgain},
	{"ATokenIsThatOfTheGrantsOwnMoment", tokensAreTheGrantsOwn},
	{"RenewKeepsTheTokenAndExtendsTheLease", renewKeepsTheToken},
	{"ARenewedLeaseOutlivesItsFirstTerm", aRenewedLeaseOutlives},
	{"ARenewalMayNotAskForAnotherTTL", aRenewalMayNotAskForAnotherTTL},
	{"ARenewalWithAnotherTokenIsLost", aRenewalWithAnotherTokenIsLost},
	{"ALeaseLastsItsTTLAndIsThenTakenOverWithAHigherToken", aLeaseLastsItsTTL},
	{"ALeaseLastsItsTTLFromItsOwnAcquire", aLeaseLastsItsTTLFromItsOwnAcquire},
	{"ALapsedGrantCannotBeRenewed", aLapsedGrantCannotBeRenewed},
	{"AStaleReleaseLeavesTheHoldersGrantAlone", aStaleReleaseLeavesTheHolderAlone},
	{"EveryServerSeesAndServesEveryGrant", everyServerServesEveryGrant},
	{"NoNameTouchesAnothersLock", noNameTouchesAnothers},
	{"ADeadSessionIsGrantedNothing", aDeadSessionIsGrantedNothing},
	{"ADeadSessionIsToldSoEvenWhereTheKeyIsHeld", aDeadSessionIsToldSo},
	{"AHeartbeatExtendsTheSessionByItsOwnTTL", aHeartbeatExtends},
	{"ClosingASessionEndsItsGrantsInOneStep", closingASessionEndsItsGrants},
	{"ASessionThatExpiresTakesItsGrantsAlongInOneStep", aSessionThatExpires},
	{"ARevokeFreesTheKeyRaisesTheFloorAndIsAudited", aRevokeIsAudited},
	{"ARevokeThatDoesNotFitChangesNothing", aRevokeThatDoesNotFit},
	{"SixteenClientsOnOneKeyGetRisingTokensOneAtATime", aCrowdOnOneKey},
}

// lonely are the rules that need a backend to themselves.
var lonely = []struct {
	name string
	test func(*world, Lone)
}{
	{"OnlyLiveGrantsAreCounted", onlyLiveGrantsAreCounted},
	{"TheReaperEndsWhatHasExpiredAndNothingElse", theReaperEndsWhatHasExpired},
	{"WaitersAreWokenAtEveryServerHoweverAGrantEnds", waitersAreWoken},
	{"ASlowBackendKeepsEveryRule", aSlowBackend},
	{"AGrantOfWhichNothingIsLeftIsNotReturned", aGrantThatTookTooLong},
	{"AnAcquireWhoseAnswerIsLostIsSentOnceAndUnknown", anAnswerIsLost},
	{"ACancelledAcquireThatArrivesLateKeepsNobodyOutForLong", aCancelledAcquire},
}

// stopped are the rules about a backend that stops.
var stopped = []struct {
	name string
	test func(*world, Server)
}{
	{"AStoppedBackendIsUnavailableAndNothingIsLost", aStoppedBackend},
	{"AfterACrashTokensGoOnRising", afterACrash},
}
