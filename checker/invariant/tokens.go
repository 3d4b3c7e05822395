package invariant

import "slices"

// tokens remembers the latest tokens of a key: enough for two witnesses that run apart, and bounded for ever.
type tokens struct {
	recent    []int64
	forgotten int64 // the highest that was dropped: of it and those below nothing is known
}

const maxTokens = 128

func (t *tokens) add(token int64) {
	if len(t.recent) == maxTokens {
		t.forgotten = max(t.forgotten, t.recent[0])
		t.recent = slices.Delete(t.recent, 0, 1)
	}
	t.recent = append(t.recent, token)
}

func (t *tokens) has(token int64) bool { return slices.Contains(t.recent, token) }

// dropped tells whether token may have been there and been forgotten.
func (t *tokens) dropped(token int64) bool { return token <= t.forgotten }
