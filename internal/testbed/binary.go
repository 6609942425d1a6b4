package testbed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BinaryEnv names a whctl that is to be tested instead of one built from this tree.
const BinaryEnv = "WHCTL_TEST_BINARY"

// Binary is the path of whctl, built once for each test binary.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(BinaryEnv); path != "" {
		return path
	}
	if bench.dir == "" {
		t.Fatal("testbed: this test binary needs: func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }")
	}
	bench.binaryOnce.Do(func() { bench.binary, bench.binaryErr = build(bench.dir) })
	if bench.binaryErr != nil {
		t.Fatalf("testbed: %v", bench.binaryErr)
	}
	return bench.binary
}

// build builds whctl into dir.
func build(dir string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	path := filepath.Join(dir, "whctl")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/whctl")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build whctl: %w\n%s", err, out)
	}
	return path, nil
}

// moduleRoot is the folder of go.mod; tests run in that of their package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod in the working folder or above it")
		}
		dir = parent
	}
}

// Config writes a configuration file and returns its path.
func Config(t testing.TB, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whctl.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
