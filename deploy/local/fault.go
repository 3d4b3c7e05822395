package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/Shopify/toxiproxy/v2"
)

// Slowness says how slow a link is to be.
type Slowness struct {
	// Latency is how long everything takes longer in a direction, give or take Jitter. Both are of whole milliseconds.
	Latency, Jitter time.Duration
	// KBPerSecond, where not 0, is how much passes in a direction.
	KBPerSecond int
	// Seed decides the jitter.
	Seed uint64
}

// Cut drops from now on whatever is sent in the direction, on open connections and on new ones; what is under way is
// lost. Nobody is told, not even that somebody has gone: the other side just falls silent. Heal closes the connections
// that were open, as bytes are missing from them.
func (l *Link) Cut(ctx context.Context, d Direction) error {
	return l.apply(ctx, "cut", d, toxic{lostType, map[string]any{}})
}

// Hold keeps back from now on whatever is sent in the direction, on open connections and on new ones, the end of a
// connection included. Heal delivers it, in its order: also what was sent by somebody who has gone since. To a receiver that
// takes nothing for half a second it delivers nothing more, and ends the connection: it cannot tell one that has gone from
// one that is paused, once the buffers in between are full.
func (l *Link) Hold(ctx context.Context, d Direction) error {
	return l.apply(ctx, "hold", d, toxic{lateType, map[string]any{"hold": true}})
}

// Slow has everything in the direction take its time, on open connections and on new ones. Heal delivers at once what is
// under way, as after a Hold.
func (l *Link) Slow(ctx context.Context, d Direction, s Slowness) error {
	return l.apply(ctx, "slow", d, toxic{lateType, map[string]any{
		"latency": s.Latency.Milliseconds(), "jitter": s.Jitter.Milliseconds(), "rate": s.KBPerSecond, "seed": s.Seed,
	}})
}

// Reset breaks every connection on which something is sent in the direction, as soon as it is: what is sent does not
// arrive. The client of a new connection sees a reset, that of one that was open before sees it end.
func (l *Link) Reset(ctx context.Context, d Direction) error {
	return l.apply(ctx, "reset", d, toxic{"reset_peer", map[string]any{"timeout": 0}})
}

// toxic is what the proxy calls a fault on one direction.
type toxic struct {
	kind       string
	attributes map[string]any
}

// apply puts a toxic on a direction, or on both. What is on already stays as it is. Its name is written down before the
// proxy is asked: what was asked in vain may be on, or come on when the proxy wakes up, and Heal has to know of it.
func (l *Link) apply(ctx context.Context, fault string, d Direction, t toxic) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stream := range d.streams() {
		name := fault + "-" + stream
		if !slices.Contains(l.faults, name) {
			l.faults = append(l.faults, name)
		}
		text, err := json.Marshal(map[string]any{"name": name, "type": t.kind, "stream": stream, "attributes": t.attributes})
		if err == nil {
			err = l.inTurn(ctx, func() error {
				_, err := l.proxy.Toxics.AddToxicJson(bytes.NewReader(text))
				return err
			})
		}
		if err != nil && !errors.Is(err, toxiproxy.ErrToxicAlreadyExists) {
			return fmt.Errorf("%s link %s: %w", fault, l.Name(), err)
		}
	}
	return nil
}

// Heal takes all faults off. After a cut or a reset the connections that were hit are closed, after a hold they go on.
// Healing a whole link changes nothing. After an error it may be tried again: faults that are off by now count as healed.
func (l *Link) Heal(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.faults) > 0 {
		name := l.faults[0]
		// The proxy takes a logger from this context and nothing else.
		err := l.inTurn(ctx, func() error { return l.proxy.Toxics.RemoveToxic(context.WithoutCancel(ctx), name) })
		if err != nil && !errors.Is(err, toxiproxy.ErrToxicNotFound) {
			return fmt.Errorf("heal link %s: %w", l.Name(), err)
		}
		l.faults = l.faults[1:]
	}
	return nil
}
