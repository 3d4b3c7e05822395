package lockclient

import (
	"context"
	"time"
)

// farewell bounds the end of the session when its process stops; the session's TTL ends it otherwise.
const farewell = 2 * time.Second

// Farewell closes the client as a process does that ends: within 2 s, and what cannot be closed in that time is logged
// and left to its TTL.
func (c *Client) Farewell() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		c.log.Warn("the lock session was not closed and will expire", "event", "release_failed", "error", err)
	}
}
