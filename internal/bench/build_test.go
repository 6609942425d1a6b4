package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// build makes the binary as a release is made.
func build(b *testing.B) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), "whctl")
	cmd := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", out, "example.com/whctl/cmd/whctl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, text)
	}
	return out
}
