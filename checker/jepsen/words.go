package jepsen

import (
	"regexp"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/linear"
)

// gone are the reasons of a release or renewal that failed because its holder does not have the lock any more: etcd's lease
// has run out, Hazelcast's session has ended, the client knows that it holds nothing. Such a release is one: the lock is
// not held from then on.
var gone = map[string]bool{
	"lock-lost": true, "lost": true, "not-held": true, "lock-not-held": true, "not-locked": true, "no-lock": true, "no-token": true,
	"not-owner": true, "not-lock-owner": true, "not-the-owner": true, "lease-not-found": true, "lease-expired": true, "lease-gone": true,
	"lease-lost": true, "no-lease": true, "expired": true, "session-expired": true, "session-unknown": true, "session-not-found": true,
	"no-session": true, "illegal-monitor-state": true,
}

// goneTexts are what exceptions say of the same, where tests keep their text: whole words, for a client that has "no nodes
// available" has lost its server, and not its lock.
var goneTexts = regexp.MustCompile(`\b(lease not found|lease expired|not held|not the owner|not owner of the lock|not own the lock|session expired|` +
	`illegalmonitorstate(exception)?|nonode(exception)?)\b`)

// held are the reasons of an acquire that failed because somebody has the lock: another, or anybody at all, whoever asked among
// them. Any other failure says nothing about it.
var held = map[string]contract.Code{
	"lock-contended": contract.LockContended, "contended": contract.LockContended, "held-by-another": contract.LockContended,
	"already-locked": linear.LockHeld, "locked": linear.LockHeld, "lock-held": linear.LockHeld,
}

// codeOf is the contract's code for a failure of op with this reason, "" for one that says nothing about the lock.
func codeOf(op contract.Op, reason string) contract.Code {
	word := strings.ReplaceAll(strings.ToLower(reason), "_", "-")
	switch op {
	case contract.OpRelease, contract.OpRenew:
		if gone[word] || goneTexts.MatchString(word) {
			return contract.LockLost
		}
	case contract.OpAcquire:
		return held[word]
	case contract.OpRevoke:
		switch word {
		case "not-found", "not-held":
			return contract.NotFound
		case "fenced-out":
			return contract.FencedOut
		}
	}
	return ""
}

// wordOf is the reason under which a code is exported.
func wordOf(code contract.Code) string {
	return strings.ReplaceAll(strings.ToLower(string(code)), "_", "-")
}
