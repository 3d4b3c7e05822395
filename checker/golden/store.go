package golden

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"fenceproof/checker/jepsen"
	"fenceproof/checker/run"
	"fenceproof/checker/verdict"

	"github.com/klauspost/compress/zstd"
)

// Suffix is that of the stored files of a history.
const Suffix = ".ndjson.zst"

// Judge is the verdict on the history in the folder dir, as verdict.json has it. The program must call linear.RunIfAsked
// first of all.
func Judge(dir string) ([]byte, error) {
	v, err := run.Recheck(dir)
	if err != nil {
		return nil, err
	}
	return v.JSON()
}

// Store compresses the history that Make made in the folder made, and puts it into dir in place of what is there.
func Store(made, dir string) error {
	from, to := filepath.Join(made, jepsen.HistoryDir), filepath.Join(dir, jepsen.HistoryDir)
	files, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("store a golden history: %w", err)
	}
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
		return fmt.Errorf("store a golden history: %w", err)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("store a golden history: %w", err)
	}
	defer z.Close()
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return fmt.Errorf("store a golden history: %w", err)
		}
		name := strings.TrimSuffix(f.Name(), ".ndjson") + Suffix
		if err := os.WriteFile(filepath.Join(to, name), z.EncodeAll(text, nil), 0o644); err != nil {
			return fmt.Errorf("store a golden history: %w", err)
		}
	}
	return nil
}

// StoreVerdict writes the verdict on the history in dir beside it.
func StoreVerdict(dir string, text []byte) error {
	if err := os.WriteFile(filepath.Join(dir, verdict.FileName), text, 0o644); err != nil {
		return fmt.Errorf("store the verdict on a golden history: %w", err)
	}
	return nil
}

// Stored tells whether dir has a history, and whether it is the one that was made in made, byte for byte before compression.
func Stored(made, dir string) (there, same bool, err error) {
	a, err := texts(filepath.Join(made, jepsen.HistoryDir))
	if err != nil {
		return false, false, err
	}
	b, err := texts(filepath.Join(dir, jepsen.HistoryDir))
	if errors.Is(err, os.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	same = len(a) == len(b)
	for name, text := range a {
		same = same && bytes.Equal(text, b[name])
	}
	return true, same, nil
}

// texts are the files of a history by witness.
func texts(dir string) (map[string][]byte, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read a golden history: %w", err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		text, err := read(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("read a golden history: %w", err)
		}
		name, _, _ := strings.Cut(f.Name(), ".")
		out[name] = text
	}
	return out, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(path, Suffix) {
		return io.ReadAll(f)
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return io.ReadAll(z)
}
