package linear

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// explain says which operation of a segment has no place after past, and writes porcupine's page of it.
func (f *finding) explain(t *task, past []Op, state State, seg []Op, deadline time.Time) {
	free := slices.Clone(seg)
	for i := range free {
		free[i].In.After = Unordered // in the order of time, not of tokens: that is how people see it
	}
	prefix, info, ok := longest(state, free, time.Until(deadline))
	if !ok {
		prefix, info, _ = longest(state, seg, time.Until(deadline))
		free = seg
	}
	s, placed := story{key: t.Key, at: state, past: past}, map[int]bool{}
	for _, i := range prefix {
		_, s.at = Step(s.at, free[i].In, free[i].Out)
		s.past = append(s.past, free[i])
		placed[i] = true
	}
	stuck := -1
	for i := range free {
		if !placed[i] && (stuck < 0 || free[i].Hi < free[stuck].Hi) {
			stuck = i
		}
	}
	if stuck < 0 {
		f.Open = "the search found an order and lost it again: that is a mistake of this program"
		return
	}
	f.Sentence, f.Refs = s.sentence(&free[stuck]), s.refs(&free[stuck])
	if t.Page != "" {
		f.Page = writePage(t.Page, state, info) == nil
	}
}

// longest is the longest order that porcupine found, the same one for the same history; ok is false when it found out
// nothing within limit.
func longest(state State, seg []Op, limit time.Duration) (prefix []int, info porcupine.LinearizationInfo, ok bool) {
	result, info := porcupine.CheckOperationsVerbose(model(state), operations(seg), max(limit, time.Millisecond))
	partials := info.PartialLinearizations()
	if len(partials) == 0 {
		return nil, info, result == porcupine.Illegal
	}
	for _, p := range partials[0] {
		if len(p) > len(prefix) || len(p) == len(prefix) && slices.Compare(p, prefix) < 0 {
			prefix = p
		}
	}
	return prefix, info, result == porcupine.Illegal
}

func writePage(path string, state State, info porcupine.LinearizationInfo) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write porcupine's page: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write porcupine's page: %w", err)
	}
	err = cmp.Or(porcupine.Visualize(model(state), info, f), f.Close())
	if err != nil {
		return fmt.Errorf("write porcupine's page: %w", err)
	}
	return nil
}
