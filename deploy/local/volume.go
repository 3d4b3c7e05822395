package local

import (
	"context"
	"fmt"
	"os"

	"fenceproof/deploy/local/warden"
	"fenceproof/deploy/postgres"
	"fenceproof/deploy/process"
)

// startWarden starts the warden, in a mount namespace of its own where there is a volume to mount.
func (s *Stack) startWarden(ctx context.Context) (err error) {
	start := warden.Start
	if len(s.config.Volumes) > 0 {
		start = warden.StartApart
	}
	s.warden, err = start(ctx, s.LogPath("warden"))
	return err
}

// volume is what a database's data is put on; nil for the disk.
func (s *Stack) volume(ctx context.Context, name string) *postgres.Volume {
	bytes, ok := s.config.Volumes[name]
	if !ok {
		return nil
	}
	return &postgres.Volume{Bytes: bytes, Mount: func(folder string, bytes int64, owner *process.User) (*os.File, error) {
		return s.warden.Mount(ctx, warden.Volume{Folder: folder, Bytes: bytes, User: owner})
	}}
}

// Volume is the volume that the data of a database is on, LockDB's or PayDB's.
func (s *Stack) Volume(name string) (*Volume, error) {
	d, err := s.database(name)
	if err != nil {
		return nil, err
	}
	if _, ok := s.config.Volumes[name]; !ok {
		return nil, fmt.Errorf("the data of %s has no volume of its own", name)
	}
	return &Volume{d}, nil
}

// Volume is a database whose data is on a volume of its own, as something that can run out of space.
type Volume struct{ d *database }

// Fill fills the volume, and returns what was seen of that: that nothing is free, and how the server refused to write. From
// then on the server may end by itself.
func (v *Volume) Fill(ctx context.Context) (seen string, err error) {
	err = v.d.do(ctx, func(ctx context.Context) (err error) {
		v.d.asked = true
		seen, err = v.d.Instance.Fill(ctx)
		return err
	})
	return seen, err
}

// ExhaustLog uses up what a full server has left of its write-ahead log, which ends it.
func (v *Volume) ExhaustLog(ctx context.Context) (seen string, err error) {
	err = v.d.do(ctx, func(ctx context.Context) (err error) {
		seen, err = v.d.Instance.ExhaustLog(ctx)
		return err
	})
	return seen, err
}

// KeepFull fills what has become free on it: the server recycles segments of its log.
func (v *Volume) KeepFull(ctx context.Context) error { return v.d.do(ctx, v.d.Instance.KeepFull) }

// Full is what is to be seen of one that is kept full; an error where the server does not refuse to write for that reason.
func (v *Volume) Full(ctx context.Context) (seen string, err error) {
	err = v.d.do(ctx, func(ctx context.Context) (err error) {
		seen, err = v.d.Instance.Full(ctx)
		return err
	})
	return seen, err
}

// Free takes away what fills it.
func (v *Volume) Free(ctx context.Context) error { return v.d.do(ctx, v.d.Instance.Free) }

// Writes is nil once the server writes again. One that has ended by itself is started.
func (v *Volume) Writes(ctx context.Context) error {
	return v.d.do(ctx, func(ctx context.Context) error {
		if !v.d.Instance.Running() {
			if err := v.d.Instance.Start(ctx); err != nil {
				return err
			}
		}
		err := v.d.Instance.Writes(ctx)
		v.d.asked = v.d.asked && err != nil
		return err
	})
}
