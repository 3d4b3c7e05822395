package invariant

// Violated lists the ids of the invariants, of those that the run is judged by, that have been found violated so far.
func (j *Judge) Violated() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ids []string
	for _, f := range j.folds {
		if v := f.Verdict(); v.Found > 0 {
			ids = append(ids, v.ID)
		}
	}
	return ids
}
