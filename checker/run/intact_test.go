package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"fenceproof/checker/history"
)

func TestADriveEndsWithItsMeans(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	for name, c := range map[string]struct {
		spoil bool
		lost  chan struct{}
		drive time.Duration
		want  string
	}{
		"when its history cannot be written": {true, nil, time.Hour, "can no longer be written"},
		"when its processes are gone":        {false, closed, time.Hour, "warden"},
		"when its time is up":                {false, nil, time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := history.Create(t.TempDir(), history.Header{RunID: "r"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = rec.Close() }() // its error is what is tested
			if c.spoil {
				rec.Record("nobody", history.Event{})
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = intact(ctx, c.lost, rec, c.drive)
			if ctx.Err() != nil || c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v (%v), want %q", err, ctx.Err(), c.want)
			}
		})
	}
}
