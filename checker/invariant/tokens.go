package invariant

import "slices"

// tokens remembers the latest tokens of a key: enough for two witnesses that run apart, and bounded for ever.
type tokens struct {
	recent []int64
}

const maxTokens = 128

func (t *tokens) add(token int64) {
	if len(t.recent) == maxTokens {
		t.recent = slices.Delete(t.recent, 0, 1)
	}
	t.recent = append(t.recent, token)
}

func (t *tokens) has(token int64) bool { return slices.Contains(t.recent, token) }
