package archive

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxName bounds how much of a policy's name goes into a file's, in bytes.
const maxName = 64

// fileName is a name of its own for each run, also of those that share a policy and a
// cutoff.
func fileName(r Run) string {
	policy := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return '-'
	}, r.Policy)
	policy = policy[:min(len(policy), maxName)]
	if strings.Trim(policy, "-") == "" {
		policy = "policy"
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // it ends the program rather than fail
	return fmt.Sprintf("%s-v%d-%s-%s.ndjson.zst", strings.TrimLeft(policy, "-"), r.Version, r.Cutoff.UTC().Format("20060102T150405.000000Z"), hex.EncodeToString(random))
}

func createFile(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err // not f: a nil pointer in an interface is not nil
	}
	return f, nil
}

// prepare makes dir, and finds out by trying whether a file can be made in it.
func prepare(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%q is no absolute path", dir)
	}
	if err := makeDir(filepath.Clean(dir)); err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, ".whctl-probe-*")
	if err != nil {
		return err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return err
	}
	return syncDir(dir)
}

// makeDir makes dir with the directories above it, and makes them last.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is no directory", dir)
		}
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	if err := makeDir(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(above)
}

// syncDir makes the names in dir last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("fsync %s: %w", dir, err), d.Close())
	}
	return d.Close()
}
