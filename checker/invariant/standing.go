package invariant

import "fenceproof/checker/verdict"

// Standing is what has been found so far: the invariants, of those that the run is judged by, that are violated already.
func (j *Judge) Standing() []verdict.Invariant {
	j.mu.Lock()
	defer j.mu.Unlock()
	var violated []verdict.Invariant
	for _, f := range j.folds {
		if v := f.Verdict(); v.Found > 0 {
			violated = append(violated, v)
		}
	}
	return violated
}

// Violated lists their ids.
func (j *Judge) Violated() []string {
	var ids []string
	for _, v := range j.Standing() {
		ids = append(ids, v.ID)
	}
	return ids
}
