package lockctl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"fenceproof/system/lock"
	"fenceproof/system/wire"

	"github.com/spf13/cobra"
)

// held is what L7 answers of a key.
type held struct {
	Key          string     `json:"key"` // lockctl's own: L7 does not repeat it
	Held         bool       `json:"held"`
	OwnerID      string     `json:"ownerId,omitempty"`
	FencingToken int64      `json:"fencingToken,omitempty"`
	AcquiredAt   *time.Time `json:"acquiredAt,omitempty"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
	WaiterCount  int        `json:"waiterCount"`
}

func (c *command) inspect() *cobra.Command {
	x := &cobra.Command{
		Use: "inspect KEY", Short: "Show who holds a key, under which token and until when",
		Example: "  lockctl inspect payout:6f1c1f36-0a52-4d6f-9d6a-0f9f1c3f5d11",
		Args:    takes("KEY"),
		RunE: func(x *cobra.Command, args []string) error {
			h, err := c.look(x.Context(), args[0])
			if err != nil {
				return err
			}
			return c.show(h, func(t *table) {
				t.row("KEY", h.Key)
				if !h.Held {
					t.row("HELD", "no")
				} else {
					t.row("HELD", "by "+h.OwnerID)
					t.row("TOKEN", h.FencingToken)
					t.row("ACQUIRED", *h.AcquiredAt)
					t.row("EXPIRES", *h.ExpiresAt)
				}
				t.row("WAITING", h.WaiterCount)
			})
		},
	}
	c.overrideServer(x)
	return x
}

func (c *command) overrideServer(x *cobra.Command) {
	c.override(x, "server", "LOCK_CTL_SERVERURL", "lock-server's URL")
}

// look is L7.
func (c *command) look(ctx context.Context, key string) (held, error) {
	if key == "" || len(key) > lock.MaxKeyBytes {
		return held{}, usage("a lock key has 1 to %d bytes, not %d", lock.MaxKeyBytes, len(key))
	}
	h := held{Key: key}
	if err := c.get(ctx, c.config.ServerURL, lockPath(key), &h); err != nil {
		return held{}, fmt.Errorf("look at %q: %w", key, err)
	}
	if h.Held && (h.AcquiredAt == nil || h.ExpiresAt == nil || h.FencingToken <= 0) {
		return held{}, fmt.Errorf("look at %q: the answer is not what the contract says", key)
	}
	return h, nil
}

// get reads, which changes nothing whatever comes of it.
func (c *command) get(ctx context.Context, base, path string, out any) error {
	client := wire.NewClient(base, 1)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, c.config.StepTimeout)
	defer cancel()
	return client.Do(ctx, wire.Call{Method: "GET", Path: path}, out)
}

func lockPath(key string) string { return "/v1/locks/" + url.PathEscape(key) }

// grant is a live grant as lock-server lists it.
type grant struct {
	Key          string    `json:"key"`
	OwnerID      string    `json:"ownerId"`
	SessionID    string    `json:"sessionId"`
	FencingToken int64     `json:"fencingToken"`
	TTLMillis    int64     `json:"ttlMillis"`
	AcquiredAt   time.Time `json:"acquiredAt"`
	ExpiresAt    time.Time `json:"expiresAt"`
}

// session is a live session as lock-server lists it.
type session struct {
	SessionID string    `json:"sessionId"`
	OwnerID   string    `json:"ownerId"`
	TTLMillis int64     `json:"ttlMillis"`
	ExpiresAt time.Time `json:"expiresAt"`
	HeldLocks int       `json:"heldLockCount"`
}

func (c *command) list() *cobra.Command {
	var owner, prefix string
	var most int
	x := &cobra.Command{
		Use: "list", Short: "List the live grants", Args: takes(),
		Example: "  lockctl list --owner executor-2\n  lockctl list --prefix payout: --json",
		RunE: func(x *cobra.Command, _ []string) error {
			all, more, err := pages(x.Context(), c, "/locks", url.Values{"owner": {owner}, "prefix": {prefix}}, most, func(p page) []grant { return p.Locks })
			if err != nil {
				return fmt.Errorf("list the grants: %w", err)
			}
			return c.show(struct {
				Locks []grant `json:"locks"`
				More  bool    `json:"more"`
			}{all, more}, func(t *table) {
				t.row("KEY", "OWNER", "TOKEN", "ACQUIRED", "EXPIRES", "SESSION")
				for _, g := range all {
					t.row(g.Key, g.OwnerID, g.FencingToken, g.AcquiredAt, g.ExpiresAt, g.SessionID)
				}
			})
		},
	}
	x.Flags().StringVar(&prefix, "prefix", "", "only keys that begin so")
	c.listFlags(x, &owner, &most)
	return x
}

func (c *command) sessions() *cobra.Command {
	var owner string
	var most int
	x := &cobra.Command{
		Use: "sessions", Short: "List the live sessions, and how many grants each has", Args: takes(),
		RunE: func(x *cobra.Command, _ []string) error {
			all, more, err := pages(x.Context(), c, "/sessions", url.Values{"owner": {owner}}, most, func(p page) []session { return p.Sessions })
			if err != nil {
				return fmt.Errorf("list the sessions: %w", err)
			}
			return c.show(struct {
				Sessions []session `json:"sessions"`
				More     bool      `json:"more"`
			}{all, more}, func(t *table) {
				t.row("SESSION", "OWNER", "TTL", "EXPIRES", "HELD")
				for _, s := range all {
					t.row(s.SessionID, s.OwnerID, time.Duration(s.TTLMillis)*time.Millisecond, s.ExpiresAt, s.HeldLocks)
				}
			})
		},
	}
	c.listFlags(x, &owner, &most)
	return x
}

func (c *command) listFlags(x *cobra.Command, owner *string, most *int) {
	x.Flags().StringVar(owner, "owner", "", "only this owner's")
	x.Flags().IntVar(most, "limit", 1000, "the most that are listed")
	c.override(x, "admin", "LOCK_CTL_ADMINURL", "URL of lock-server's private listener")
}

// page is an answer of either list.
type page struct {
	Locks     []grant   `json:"locks"`
	Sessions  []session `json:"sessions"`
	NextAfter string    `json:"nextAfter"`
}

// pages reads page after page until there are most, or no more.
func pages[T any](ctx context.Context, c *command, path string, query url.Values, most int, items func(page) []T) (all []T, more bool, err error) {
	if most < 1 {
		return nil, false, usage("--limit is %d and must be above 0", most)
	}
	all = []T{}
	for {
		var p page
		query.Set("limit", strconv.Itoa(min(most-len(all), lock.MaxListed)))
		if err := c.get(ctx, c.config.AdminURL, path+"?"+query.Encode(), &p); err != nil {
			return nil, false, err
		}
		all = append(all, items(p)...)
		if p.NextAfter == "" {
			return all, false, nil
		}
		if len(all) >= most {
			fmt.Fprintf(c.Err, "lockctl: there may be more than these %d: give a larger --limit, or --owner or --prefix\n", len(all))
			return all, true, nil
		}
		if p.NextAfter == query.Get("after") {
			return nil, false, errors.New("lock-server answers the same page again and again")
		}
		query.Set("after", p.NextAfter)
	}
}
