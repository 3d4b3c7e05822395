package local

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestARunThatWouldFillTheDiskIsRefused(t *testing.T) {
	if err := enough("runs", NeededSpace); err != nil {
		t.Errorf("refused with just enough: %v", err)
	}
	if err := enough("runs", NeededSpace-1); err == nil || !strings.Contains(err.Error(), "fenceproof clean") {
		t.Errorf("a byte too little: %v", err)
	}
	if err := RequireSpace(filepath.Join(t.TempDir(), "not", "there", "yet")); err != nil {
		t.Errorf("a folder that does not exist yet: %v", err)
	}
}
