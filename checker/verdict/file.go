package verdict

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// FileName is the verdict's file in a run's folder.
const FileName = "verdict.json"

// JSON is r as the verdict's file has it.
func (r *Run) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the verdict as JSON: %w", err)
	}
	return append(text, '\n'), nil
}

// Write writes r to dir/verdict.json. Whoever reads the file sees the old one or the whole new one.
func (r *Run) Write(dir string) (err error) {
	path := filepath.Join(dir, FileName)
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the verdict to %s: %w", path, err)
		}
	}()
	text, err := r.JSON()
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, text, 0o644, renameio.WithTempDir(dir))
}

// Read reads dir/verdict.json. It refuses the file of a later version.
func Read(dir string) (*Run, error) {
	path := filepath.Join(dir, FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the verdict: %w", err)
	}
	var r Run
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read the verdict in %s: %w", path, err)
	}
	if r.Schema > SchemaVersion {
		return nil, fmt.Errorf("read the verdict in %s: it has version %d, this program reads up to %d: use a newer one", path, r.Schema, SchemaVersion)
	}
	return &r, nil
}
