package lockctl

import (
	"context"
	"fmt"
	"strings"

	"fenceproof/system/wire"

	"github.com/spf13/cobra"
)

func (c *command) revoke() *cobra.Command {
	var expect string
	var d *deed
	x := &cobra.Command{
		Use: "revoke KEY", Short: "Free a key by force and raise the floor of its later tokens",
		Long: `revoke ends the grant of a key. It frees the key and raises the floor of later tokens; it does not fence the resource:
the old holder can write until the next holder claims. Only the grant that was looked at is revoked, or the one that
--expect names.`,
		Example: `  lockctl revoke payout:6f1c1f36-0a52-4d6f-9d6a-0f9f1c3f5d11 --operator olga --reason "executor-2 hangs since noon"`,
		Args:    takes("KEY"),
		RunE:    func(x *cobra.Command, args []string) error { return c.doRevoke(x.Context(), args[0], expect, d) },
	}
	d = c.deed(x)
	x.Flags().StringVar(&expect, "expect", "", "revoke only a grant that bears this token")
	c.overrideServer(x)
	return x
}

// revoked is L8's answer.
type revoked struct {
	Key           string `json:"key"`
	OwnerID       string `json:"ownerId"`
	RevokedToken  int64  `json:"revokedToken"`
	NewTokenFloor int64  `json:"newTokenFloor"`
	RevocationID  string `json:"revocationId"`
}

func (c *command) doRevoke(ctx context.Context, key, expect string, d *deed) error {
	if err := c.check(d); err != nil {
		return err
	}
	token := int64(0)
	if expect != "" {
		var err error
		if token, err = wire.ParseToken(expect); err != nil {
			return usage("--expect is %q: a token is a decimal number from 1 to 9223372036854775807", expect)
		}
	}
	h, err := c.look(ctx, key)
	switch {
	case err != nil:
		return err
	case !h.Held:
		return refuse("nobody holds %s: nothing was changed", key)
	case token != 0 && token != h.FencingToken:
		return refuse("%s carries token %d, not %d: nothing was changed", key, h.FencingToken, token)
	}
	if err := c.ask(ctx, "revoke token %d of %s, held by %s until %s?", h.FencingToken, key, h.OwnerID, clock(*h.ExpiresAt)); err != nil {
		return err
	}
	r := revoked{Key: key, OwnerID: h.OwnerID}
	if err := c.sendRevoke(ctx, h, d, &r); err != nil {
		return err
	}
	return c.report(r, func(t *table) {
		t.row("REVOKED", fmt.Sprintf("token %d of %s", r.RevokedToken, key))
		t.row("HELD BY", r.OwnerID)
		t.row("LATER TOKENS", fmt.Sprintf("%d and above", r.NewTokenFloor))
		t.row("AUDIT", r.RevocationID)
		t.row("NOTE", "the key is free, the resource is not fenced: "+r.OwnerID+" can write until the next holder claims")
	})
}

// sendRevoke is L8, of the very grant that was looked at: its successor is another matter.
func (c *command) sendRevoke(ctx context.Context, h held, d *deed, r *revoked) error {
	client := wire.NewClient(c.config.ServerURL, 1)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, c.config.StepTimeout)
	defer cancel()
	err := client.Do(ctx, wire.Call{Method: "POST", Path: lockPath(h.Key) + "/revoke", Body: map[string]any{
		"operator": d.operator, "reason": d.reason, "expectedToken": h.FencingToken}}, r)
	switch {
	case err == nil:
		return nil
	case wire.CodeOf(err) == wire.NotFound:
		return refuse("nobody holds %s any more: nothing was changed", h.Key)
	case wire.CodeOf(err) == wire.FencedOut:
		return refuse("%s has changed hands meanwhile: %w", h.Key, err)
	case answered(err) || neverSent(err):
		return refuse("nothing was changed: %w", err)
	}
	return unknown(err, "it is not known whether token %d of %s was revoked. Look: lockctl inspect %s. A revoke that is sent again hits this token or nothing.",
		h.FencingToken, h.Key, quoted(h.Key))
}

// quoted is s as a shell reads it back.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
