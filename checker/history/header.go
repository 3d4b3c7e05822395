package history

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Header is the first line of every file of a history. All files of a run bear the same header, but for Witness.
type Header struct {
	// Schema is the version of the format. Create fills it in.
	Schema int `json:"schema"`
	// Witness is the witness whose file this is. Create fills it in.
	Witness Witness `json:"witness"`
	// Witnesses lists every witness of the run, so that a file that is missing is missed. Empty stands for Witnesses().
	Witnesses []Witness `json:"witnesses,omitempty"`
	// Sparse says that numbers may be missing from the one sequence of I: whoever recorded this did not number its events
	// one by one. Nobody can tell then that an event was removed. The Recorder leaves no number out.
	Sparse bool `json:"sparse,omitempty"`
	// RunID is the name of the run's folder.
	RunID string `json:"run"`
	// Seed decided the plan. It is a decimal string in the file: JavaScript loses bits above 2^53.
	Seed uint64 `json:"seed,string"`
	// Plan is the plan as plan files have it; Config is what the run was told to do. Both belong to the run: this
	// package keeps them and understands neither.
	Plan   json.RawMessage `json:"plan,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`
	// Versions names the parts that ran ("postgres": "16.10").
	Versions map[string]string `json:"versions,omitempty"`
	// Started is the wall clock's time at T = 0. Nothing is ever judged by it.
	Started time.Time `json:"started"`
}

// Trailer is the last line of a complete file.
type Trailer struct {
	// Events is the number of events in the file, Last the I of the last of them (0: none).
	Events int64 `json:"events"`
	Last   int64 `json:"last"`
}

// expected lists the witnesses that h promises.
func (h *Header) expected() []Witness {
	if len(h.Witnesses) == 0 {
		return Witnesses()
	}
	return h.Witnesses
}

// differs names what is not the same in two headers of one run: "" where nothing is but Witness, and Sparse, which counts
// only where all have it.
func (h *Header) differs(g *Header) string {
	switch {
	case h.Schema != g.Schema:
		return "schema"
	case !slices.Equal(h.Witnesses, g.Witnesses):
		return "witnesses"
	case h.Seed != g.Seed:
		return "seed"
	case !sameJSON(h.Plan, g.Plan):
		return "plan"
	case !sameJSON(h.Config, g.Config):
		return "config"
	case !maps.Equal(h.Versions, g.Versions):
		return "versions"
	case !h.Started.Equal(g.Started):
		return "started"
	}
	return ""
}

// sameJSON compares two values whatever the space between their parts.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}
