package linear

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// explain says which operation of p has no place after the pieces before it, and writes porcupine's page of them.
func (f *finding) explain(t *task, before []piece, p piece, deadline time.Time) {
	ops := slices.Clone(p.ops)
	for i := range ops {
		ops[i].In.After = Unordered // in the order of time, not of tokens: that is how people see it
	}
	prefix, ok := longest(p.state, ops, time.Until(deadline))
	if !ok {
		prefix, _ = longest(p.state, p.ops, time.Until(deadline))
	}
	s, placed := story{key: t.Key, at: p.state}, map[int]bool{}
	for _, b := range before {
		s.past = append(s.past, b.ops...)
	}
	for _, i := range prefix {
		_, s.at = Step(s.at, ops[i].In, ops[i].Out)
		s.past = append(s.past, ops[i])
		placed[i] = true
	}
	stuck := -1
	for i := range ops {
		if !placed[i] && !ops[i].In.Maybe && (stuck < 0 || ops[i].Hi < ops[stuck].Hi) {
			stuck = i
		}
	}
	if stuck < 0 {
		f.Open = "the search found an order and lost it again: that is a mistake of this program"
		return
	}
	f.Sentence, f.Refs = s.sentence(&ops[stuck]), s.refs(&ops[stuck])
	f.Page = t.Page != "" && writePage(t.Page, before, piece{p.state, ops}, deadline) == nil
}

// longest is the longest order that porcupine found, the same one for the same history; ok is false when it did not come to
// an end within limit.
func longest(state State, ops []Op, limit time.Duration) (prefix []int, ok bool) {
	result, info := porcupine.CheckOperationsVerbose(model(state), operations(ops), max(limit, time.Millisecond))
	for _, p := range slices.Concat(info.PartialLinearizations()...) {
		if len(p) > len(prefix) || len(p) == len(prefix) && slices.Compare(p, prefix) < 0 {
			prefix = p
		}
	}
	return prefix, result == porcupine.Illegal
}

// pageContext is how many operations before the piece that fails porcupine's page shows.
const pageContext = 40

// writePage writes porcupine's page of p, and of what came just before it.
func writePage(path string, before []piece, p piece, deadline time.Time) error {
	from, n := len(before), 0
	for from > 0 && n+len(before[from-1].ops) <= pageContext {
		from--
		n += len(before[from].ops)
	}
	state, ops := p.state, []Op{}
	for i, b := range before[from:] {
		if i == 0 {
			state = b.state
		}
		ops = append(ops, b.ops...)
	}
	m := model(state)
	_, info := porcupine.CheckOperationsVerbose(m, operations(append(ops, p.ops...)), max(time.Until(deadline), time.Millisecond))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write porcupine's page: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write porcupine's page: %w", err)
	}
	if err = errors.Join(porcupine.Visualize(m, info, f), f.Close()); err != nil {
		// Half a page shows nothing, and whoever judges the run again must not find one.
		return fmt.Errorf("write porcupine's page: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}
