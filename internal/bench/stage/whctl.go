package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"example.com/whctl/internal/bench/peer"
)

// GCPercent is Go's setting for whctl and all that it is compared with.
const GCPercent = "400"

// config lets whctl send to the receiver. The cap is 32 a destination; the circuit is
// off, since a destination that fails is to be met, not avoided.
const config = `
policies: {default: {max_in_flight: 32, circuit: {failures: 0}}}
egress: {require_https: false, allow_cidrs: [127.0.0.7/32]}
keys: {bench: {current: {env: BENCH_KEY}}}
retention:
  delivered: {version: 1, states: [delivered], keep: 30d}
  archived: {version: 1, states: [delivered], keep: 30d, archive: {dir: %s}}
`

// Whctl is the program that is measured.
type Whctl struct{ path, dir string }

// NewWhctl prepares runs of the program at path, which keep their files in dir.
func NewWhctl(path, dir string) (*Whctl, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return &Whctl{path, dir}, os.WriteFile(filepath.Join(dir, "whctl.yaml"), fmt.Appendf(nil, config, filepath.Join(dir, "archive")), 0o600)
}

// Command prepares a run on a database. The end of ctx stops it as an operator does.
func (w *Whctl) Command(ctx context.Context, d *Database, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Dir = w.dir
	cmd.Env = []string{"WHCTL_DATABASE_URL=" + d.URL, "BENCH_KEY=" + peer.Key, "HOME=" + w.dir, "GOGC=" + GCPercent}
	return cmd
}

// Version is what the program says of itself.
func (w *Whctl) Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, w.path, "version", "-o", "json").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", w.path, err)
	}
	var v struct{ Version string }
	return v.Version, json.Unmarshal(out, &v)
}
