package local

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// NeededSpace is how many bytes must be free where a run keeps its data.
const NeededSpace = 2 << 30

// RequireSpace refuses when less than NeededSpace is free for us on the disk of folder. A run that fills a disk tells
// nothing about the system and breaks its neighbours. The folder need not exist yet.
func RequireSpace(folder string) error {
	var st unix.Statfs_t
	dir, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("find %s: %w", folder, err)
	}
	for err = unix.Statfs(dir, &st); err == unix.ENOENT && dir != filepath.Dir(dir); err = unix.Statfs(dir, &st) {
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return fmt.Errorf("ask how much space is free in %s: %w", folder, err)
	}
	return enough(folder, st.Bavail*uint64(st.Bsize))
}

func enough(folder string, free uint64) error {
	if free >= NeededSpace {
		return nil
	}
	return fmt.Errorf("%.1f GB are free for %s and a run needs %d GB: remove old runs (fenceproof clean) or make room", float64(free)/(1<<30), folder, NeededSpace>>30)
}
