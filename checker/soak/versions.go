package soak

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"fenceproof/checker/verdict"
)

// alike holds what a run was made with besides this build, PostgreSQL and etcd, against the runs before it, and keeps it for those
// to come. It fails where that is of another version: what a soak shows must be of one system.
func (f *Folder) alike(v *verdict.Run) error {
	for _, what := range slices.Sorted(maps.Keys(v.Versions)) {
		if before, ok := f.versions[what]; ok && before != v.Versions[what] {
			return fmt.Errorf("the run was made with %s %s, and those before it with %s: begin another soak in a new folder, or put that back", what, v.Versions[what], before)
		}
	}
	if f.versions == nil {
		f.versions = map[string]string{}
	}
	maps.Copy(f.versions, v.Versions)
	return nil
}

// alike fails where the run id is of another system than those before it. One without a verdict does not say.
func (s *soak) alike(id string) error {
	if err := s.build.same(); err != nil || id == "" { // its programs may have been of either build
		return err
	}
	v, err := verdictOf(filepath.Join(s.Into, runsDir, id))
	if err != nil || v == nil { // which its line tells
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.folder.alike(v)
}
