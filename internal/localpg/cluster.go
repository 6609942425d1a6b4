package localpg

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/lib/pq" // the driver of the readiness probe
)

const superuser = "postgres"

// pollEvery is how often a starting server is asked whether it answers by now.
const pollEvery = 10 * time.Millisecond

// logTail is how much of the log goes into the error of a failed start, in bytes.
const logTail = 2048

// hba lets every role in through the socket, which stands in a folder closed to other
// users. Over TCP, which any user of the machine can reach, the superuser needs the
// password: as superuser one runs programs under the server's account.
const hba = `local all         all                    trust
local replication all                    trust
host  all         postgres  127.0.0.1/32 scram-sha-256
host  replication postgres  127.0.0.1/32 scram-sha-256
host  all         all       127.0.0.1/32 trust
`

// initCluster makes the data folder and its configuration.
func initCluster(ctx context.Context, bin string, own *account, f *folder, o Options) error {
	args := []string{
		"--pgdata", f.data(), "--username", superuser, "--encoding", "UTF8",
		"--locale", "C.UTF-8", "--auth", "trust", "--no-instructions",
	}
	if !o.Durable {
		args = append(args, "--no-sync")
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	prepare(cmd, f, own, nil)
	// Asked like this, initdb takes its own child along.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	<-p.done // the context's end ends it
	if p.err != nil {
		return fmt.Errorf("initdb: %w: %s", errors.Join(ctx.Err(), p.err), tail(out.Bytes()))
	}
	if err := os.WriteFile(filepath.Join(f.data(), "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	return appendTo(filepath.Join(f.data(), "postgresql.conf"), configuration(o))
}

// configuration is what differs from initdb's file. The last of two lines wins.
func configuration(o Options) string {
	settings := map[string]string{
		"listen_addresses":  "127.0.0.1",
		"max_connections":   "200",
		"timezone":          "UTC",
		"log_timezone":      "UTC",
		"logging_collector": "off",
		"cluster_name":      "whctl-localpg",
	}
	if !o.Durable {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
		settings["max_wal_size"] = "256MB" // several servers at once share a small disk
	}
	maps.Copy(settings, o.Settings)
	var b strings.Builder
	b.WriteByte('\n')
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := strings.NewReplacer(`\`, `\\`, `'`, `''`, "\n", `\n`).Replace(settings[name])
		fmt.Fprintf(&b, "%s = '%s'\n", name, value)
	}
	return b.String()
}

func appendTo(path, text string) (err error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteString(text); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	return nil
}

// launch starts the server on s.port and waits until it answers. When it fails,
// nothing runs any more.
func (s *Server) launch(ctx context.Context, bin string, own *account, env []string) error {
	log, err := os.Create(s.folder.log())
	if err != nil {
		return fmt.Errorf("make the log: %w", err)
	}
	defer func() { _ = log.Close() }() // the server has its own copy
	// No CommandContext: ctx is about the start, and the server outlives it.
	cmd := exec.Command(filepath.Join(bin, "postgres"), //nolint:noctx // see above
		"-D", s.folder.data(), "-p", strconv.Itoa(s.port), "-k", s.folder.socket)
	prepare(cmd, s.folder, own, env)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	s.process = p
	if err := s.await(ctx); err != nil {
		p.stop()
		text, _ := os.ReadFile(s.folder.log()) // a missing log is an empty one
		if bytes.Contains(text, []byte("could not bind")) && ctx.Err() == nil {
			return fmt.Errorf("port %d: %w", s.port, errPortTaken)
		}
		return fmt.Errorf("%w; its log ends with: %s", err, tail(text))
	}
	return nil
}

// await asks through the socket: that is certainly this server, and it listens there
// last.
func (s *Server) await(ctx context.Context) error {
	db, err := sql.Open("postgres", s.SocketURL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.process.done:
			return fmt.Errorf("the server ended by itself (%v)", s.process.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w (%w)", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// prepare gives a program a known environment: nothing of ours, such as PGDATA,
// reaches it.
func prepare(cmd *exec.Cmd, f *folder, own *account, env []string) {
	cmd.Dir = f.path
	cmd.SysProcAttr = own.attr()
	// TZ spares initdb a walk through all time zones.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC"}, env...)
}

// tail is the end of a program's words, for an error.
func tail(text []byte) string {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return "(nothing)"
	}
	if len(text) > logTail {
		text = append([]byte("…"), text[len(text)-logTail:]...)
	}
	return string(text)
}
