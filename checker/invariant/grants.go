package invariant

import "fenceproof/checker/history"

// grant is a new grant of a key in the lock store's log.
type grant struct {
	key, owner, session string
	token               int64
	overwrote           bool // it took the row of a grant that had not been released
}

// readGrants finds the new grants in a commit of lockdb. An update that leaves owner, session, token and the time of
// acquiring alone is a renewal; whatever else it does to the row, it grants anew, with or without a new token.
func (b *book) readGrants(e *history.Event) {
	b.grant = b.grant[:0]
	for i := range e.Changes {
		c := &e.Changes[i]
		if c.Table != "lock_entry" || c.New == nil {
			continue
		}
		overwrote := c.Kind == history.Update
		if overwrote && renewal(c) {
			continue
		}
		b.grant = append(b.grant, grant{
			key: c.New["lock_key"], owner: c.New["owner_id"], session: c.New["session_id"],
			token: history.Int(c.New["fencing_token"]), overwrote: overwrote,
		})
	}
}

func renewal(c *history.Change) bool {
	for _, column := range []string{"owner_id", "session_id", "fencing_token", "acquired_at"} {
		if c.Old[column] != c.New[column] {
			return false
		}
	}
	return true
}
